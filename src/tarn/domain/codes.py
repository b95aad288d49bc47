"""The one table of codes: events, errors and findings, with what to do. `tarn help CODE` reads it."""

import enum

import attrs

__all__ = ["CODES", "Code", "Severity"]


class Severity(enum.StrEnum):
    """How much a person should care."""

    INFO = "info"
    WARNING = "warning"
    ALERT = "alert"


@attrs.frozen
class Code:
    """One code: what it means, and the next step."""

    code: str
    severity: Severity
    title: str
    meaning: str
    next_step: str


_I, _W, _A = Severity.INFO, Severity.WARNING, Severity.ALERT

_TABLE = (
    # 10xx: the master
    Code("TARN-1000", _A, "error", "Something failed that has no code of its own.", "Read the message; it names the place."),
    Code("TARN-1001", _A, "superseded", "A master with a higher epoch is at work; the older one leaves everything as it is.", "Nothing: the newer master has taken over."),
    Code("TARN-1002", _I, "master started", "A master took up its work.", "Nothing."),
    Code("TARN-1003", _I, "master leaves", "The master was asked to leave; the fleet stays.", "`tarn up` starts a master that takes the fleet over."),
    Code("TARN-1004", _I, "instance recovered", "The master found an instance of an earlier master and took it over.", "Nothing."),
    Code("TARN-1005", _W, "state not saved", "The master's state could not be written; it goes on, and the next master rebuilds from what it finds.", "Free disk space, or mend the permissions of the cluster's directory."),
    Code("TARN-1006", _A, "older state used", "The newest saved state could not be read; an older one was used.", "Check the disk; `tarn status` shows what was recovered."),
    Code("TARN-1007", _A, "state is newer", "The saved state was written by a newer TARN.", "Use the newer TARN, or end the cluster with it first."),
    Code("TARN-1008", _A, "fenced", "The master has had no good word from its runtime for `master.fence_after`, so it stopped acting.", "Check the runtime; the master acts again as soon as it answers."),
    Code("TARN-1009", _A, "provider blocked", "A provider has been working on one item for more than 10 s.", "Look at the named provider; ticks go on without it."),
    Code("TARN-1010", _A, "replacements frozen", "More than half of the fleet fell silent at once, so the observer is suspect and nothing is replaced.", "Check the network; `tarn resume` thaws at once, else it thaws when half answer again or after five minutes."),
    Code("TARN-1011", _I, "replacements thawed", "Silent instances are replaced again.", "Nothing."),
    Code("TARN-1012", _A, "policy failed", "The scaling policy raised, hung or answered nonsense; the present size is kept.", "Read its message; `tarn resume` tries it again."),
    Code("TARN-1013", _A, "control loop error", "A tick of the control loop raised; it was counted, and the next tick goes on.", "Report it with the text in master.log."),
    Code("TARN-1014", _A, "keeper missing", "Nobody restarts the master when it ends.", "`tarn up` starts a keeper."),
    # 11xx: instances
    Code("TARN-1100", _I, "instance requested", "A new instance was asked for.", "Nothing."),
    Code("TARN-1101", _I, "instance starting", "Its process exists.", "Nothing."),
    Code("TARN-1102", _I, "instance ready", "It serves, and is in the view.", "Nothing."),
    Code("TARN-1103", _I, "instance draining", "It was taken out of the view, and finishes what it has.", "Nothing."),
    Code("TARN-1104", _I, "instance stopped", "It ended as asked; the message is the receipt.", "Nothing."),
    Code("TARN-1105", _W, "instance failed", "It ended or could not start; it is replaced after a back-off.", "`tarn logs INSTANCE` shows Triton's log."),
    Code("TARN-1106", _W, "instance silent", "It does not answer; it is out of the view.", "It is replaced after `instance.replace_after`."),
    Code("TARN-1107", _I, "instance answers again", "It is back in the view.", "Nothing."),
    Code("TARN-1108", _W, "instance replaced", "It was silent or not ready for too long, so it is killed and replaced.", "`tarn logs INSTANCE` shows Triton's log."),
    Code("TARN-1109", _W, "drain cut", "The drain limit passed; what still ran was cut.", "Raise `drain.timeout` if requests may take this long."),
    Code("TARN-1110", _I, "returned from draining", "It was needed again before its stop.", "Nothing."),
    Code("TARN-1111", _W, "model unavailable", "A model that should be served is not; the message is Triton's own.", "Mend the model in the repository; `tarn logs INSTANCE` shows more."),
    Code("TARN-1112", _A, "launching given up", "Five instances in a row failed quickly; nothing more is launched.", "Mend the cause in the message, then `tarn resume`."),
    # 12xx: size
    Code("TARN-1200", _I, "size decided", "The desired number of replicas changed.", "`tarn status` shows the reason."),
    Code("TARN-1201", _I, "scaling paused", "No scaling decisions until the pause ends.", "`tarn resume` ends it at once."),
    Code("TARN-1202", _I, "scaling resumed", "Scaling decisions are made again.", "Nothing."),
    Code("TARN-1203", _I, "cluster ends", "`down` was asked: everything drains and stops.", "Nothing."),
    # 13xx: followers and discovery
    Code("TARN-1300", _I, "follower joined", "A follower acknowledged a view.", "Nothing."),
    Code("TARN-1301", _A, "follower lost", "A required follower's lease ran out; drains wait twice the quiesce time instead of its word.", "Restart the follower."),
    Code("TARN-1302", _W, "follower never came", "A required follower has not acknowledged anything yet; drains do not wait for it.", "Start it, or remove it from `discovery`."),
    Code("TARN-1303", _W, "discovery behind", "A discovery could not publish the view.", "Read its message; it is tried again."),
    # 20xx: configuration
    Code("TARN-2000", _A, "configuration error", "What was written cannot be meant.", "Mend the named key; `tarn config schema` shows what is possible."),
    Code("TARN-2001", _A, "unknown key", "The configuration has a key that TARN does not know.", "Use the key it suggests, or remove it."),
    Code("TARN-2002", _A, "wrong value", "A value has the wrong type, unit or range.", "Write it as shown in the message."),
    Code("TARN-2003", _A, "contradiction", "Two values cannot both be meant.", "Change one of them."),
    Code("TARN-2004", _A, "not in this version", "The option belongs to a part that this version does not have.", "Remove it; the message names the part."),
    Code("TARN-2005", _W, "accepted with a note", "The option is accepted and does nothing here.", "Remove it when convenient."),
    Code("TARN-2100", _A, "refused", "The limits or the present state forbid it.", "The message gives the limits."),
    Code("TARN-2101", _A, "changed meanwhile", "Somebody else changed the cluster first.", "Look at `tarn status`, then ask again."),
    Code("TARN-2102", _A, "spec differs", "A cluster of this name runs with another spec.", "`tarn update` changes it; `tarn down` ends it first."),
    Code("TARN-2103", _A, "already running", "A cluster of this name runs, or is being started.", "`tarn status` shows it; `tarn down` ends it."),
    # 22xx: model repository
    Code("TARN-2200", _A, "repository missing", "The model repository does not exist.", "Mend `models.repository`."),
    Code("TARN-2201", _A, "repository empty", "The model repository holds no model.", "Put models in it: <repository>/<model>/<version>/<file>."),
    Code("TARN-2202", _A, "one level off", "The directory looks like a single model, or a folder of repositories.", "Name the directory that holds the model directories."),
    Code("TARN-2203", _A, "model missing", "A model in `models.serve` is not in the repository.", "Mend the name, or add the model."),
    # 30xx: providers
    Code("TARN-3000", _A, "provider failed", "A provider could not do its work.", "Read its message."),
    Code("TARN-3100", _A, "launch failed", "A runtime could not start an instance.", "Read its message."),
    Code("TARN-3101", _A, "no tritonserver", "No tritonserver was found.", "pip install 'tarn[local]', put tritonserver on PATH, or set triton.binary."),
    Code("TARN-3102", _A, "system too old", "The Triton wheel needs a newer C library.", "Use a system with glibc 2.35 or newer, or set triton.binary."),
    Code("TARN-3103", _A, "port taken", "A fixed port is in use by another process.", "Choose another port, or 0 for a free one."),
    Code("TARN-3104", _A, "no libpython", "Triton's Python backend needs the shared library of Python, and there is none.", "Install it (Debian: libpython3.11), or use a Python built with --enable-shared."),
    Code("TARN-3105", _A, "not enough GPUs", "The machine has fewer free GPUs than the instances ask for.", "Lower instance.resources.gpus or replicas.max."),
    Code("TARN-3106", _W, "not enough memory", "The instances ask for more memory than the machine has.", "Lower instance.resources.memory or replicas.min."),
    Code("TARN-3200", _A, "storage failed", "A storage could not find, read or copy.", "Read its message."),
    Code("TARN-3201", _A, "disk full", "There is not enough space; the old copy stays usable.", "Free the named number of bytes."),
    Code("TARN-3300", _A, "discovery failed", "A discovery could not publish.", "Read its message."),
    # 40xx: finding and reaching
    Code("TARN-4000", _A, "not found", "There is no such cluster, instance or code.", "`tarn status` lists what there is."),
    Code("TARN-4001", _A, "unreachable", "It exists, and does not answer.", "Read the message; it names what was tried."),
    Code("TARN-4002", _A, "timed out", "A deadline passed.", "Wait longer with --timeout, or see `tarn why`."),
    Code("TARN-4003", _A, "no master", "Instances serve, but no master is at work.", "`tarn up` starts one that takes them over."),
    # 50xx: identity
    Code("TARN-5000", _A, "not authorized", "The authorizer said no, or the api token is missing or wrong.", "Use the owner's account, or pass the api token."),
    # 60xx: plugins
    Code("TARN-6000", _A, "plugin error", "A plugin broke the rules of its hook.", "Tell its author; the message names it."),
    Code("TARN-6001", _A, "provider missing", "No plugin offers the name, or its modules are not installed.", "Install what the message names."),
)  # fmt: skip

CODES: dict[str, Code] = {code.code: code for code in _TABLE}
