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
    Code("TARN-1015", _W, "plain placement", "YARN takes no placement constraints, so nodes are chosen by refusing those that hold an instance; other TARN applications are not seen.", "Set yarn.resourcemanager.placement-constraints.handler to scheduler, then start the cluster anew."),
    Code("TARN-1016", _W, "tokens end", "Delegation tokens cannot be renewed for ever: after the date in the message instances and restarts of the master go on, and no new instance can start.", "`tarn down`, then `tarn up`, before that date or after it."),
    Code("TARN-1017", _W, "ResourceManager silent", "YARN's ResourceManager does not answer the master: instances go on, and none is started or ended until it does.", "Restart it, or wait for its failover; the master goes on by itself."),
    # 11xx: instances
    Code("TARN-1100", _I, "instance requested", "A new instance was asked for.", "Nothing."),
    Code("TARN-1101", _I, "instance starting", "Its process exists.", "Nothing."),
    Code("TARN-1102", _I, "instance ready", "It serves, and is in the view.", "Nothing."),
    Code("TARN-1103", _I, "instance draining", "It was taken out of the view, and finishes what it has.", "Nothing."),
    Code("TARN-1104", _I, "instance stopped", "It ended as asked, and had nothing to finish, or was broken; the message is the receipt.", "Nothing."),
    Code("TARN-1105", _W, "instance failed", "It ended or could not start; it is replaced after a back-off.", "`tarn logs INSTANCE` shows Triton's log."),
    Code("TARN-1106", _W, "instance silent", "It does not answer; it is out of the view.", "It is replaced after `instance.replace_after`."),
    Code("TARN-1107", _I, "instance answers again", "It is back in the view.", "Nothing."),
    Code("TARN-1108", _W, "instance replaced", "It was silent or not ready for too long, so it is killed and replaced.", "`tarn logs INSTANCE` shows Triton's log."),
    Code("TARN-1109", _W, "drain cut", "The drain limit passed; what still ran was cut.", "Raise `drain.timeout` if requests may take this long."),
    Code("TARN-1110", _I, "returned from draining", "It was needed again before its stop.", "Nothing."),
    Code("TARN-1111", _W, "model unavailable", "A model that should be served is not; the message is Triton's own.", "Mend the model in the repository; `tarn logs INSTANCE` shows more."),
    Code("TARN-1112", _A, "launching given up", "Five instances in a row failed quickly; nothing more is launched.", "Mend the cause in the message, then `tarn resume`."),
    Code("TARN-1113", _W, "place will be taken", "The runtime will take its place away (preemption, a node put out of service): it is drained, and replaced at once.", "Nothing; if it happens often, ask for a queue or nodes that are not preempted."),
    Code("TARN-1114", _I, "instance drained", "It ended as asked, after it had finished what it had; the message is the receipt.", "Nothing; where something was cut, raise `drain.timeout` if requests may take this long."),
    # 12xx: size
    Code("TARN-1200", _I, "size decided", "The desired number of replicas changed.", "`tarn scaling explain` says why."),
    Code("TARN-1201", _I, "scaling paused", "No scaling decisions until the pause ends.", "`tarn resume` ends it at once."),
    Code("TARN-1202", _I, "scaling resumed", "Scaling decisions are made again.", "Nothing."),
    Code("TARN-1203", _I, "cluster ends", "`down` was asked: everything drains and stops.", "Nothing."),
    Code("TARN-1204", _I, "demand from zero", "Requests waited for an instance of a cluster that had none, so one is started.", "Nothing."),
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
    # 23xx: lint of a model repository; an alert keeps Triton from serving what was meant
    Code("TARN-2300", _A, "lint rule failed", "A rule of `tarn lint` raised; the others were heard.", "Tell the rule's author; the message names it."),
    Code("TARN-2301", _A, "unreadable", "A file or directory of the repository cannot be read.", "Give the user of tritonserver the right to read it."),
    Code("TARN-2302", _A, "link leads nowhere", "A link has no target; at the top of a repository it keeps Triton from loading any model, in a model from loading that one.", "Remove the link, or bring its target back."),
    Code("TARN-2303", _A, "links in a circle", "A link leads to a directory that holds it.", "Remove the link."),
    Code("TARN-2304", _W, "junk at the top", "A hidden directory, or one that a tool left, lies where Triton looks for models: it is listed as an unavailable one.", "Remove it, or move it out of the repository."),
    Code("TARN-2305", _A, "too many files", "There is more than a model repository can hold.", "Name the repository itself."),
    Code("TARN-2306", _W, "model file at the top", "A model's file lies beside the models, where Triton does not look.", "Move it to <model>/<version>/."),
    Code("TARN-2307", _I, "left by a tool", "A hidden directory inside a model; it does no harm, and is not copied.", "Nothing, or remove it."),
    Code("TARN-2308", _A, "empty model", "A directory at the top is empty; Triton takes it for a model.", "Remove it, or put the model into it."),
    Code("TARN-2309", _A, "no model", "A directory at the top has neither a configuration nor a version.", "Move it out of the repository, or lay it out as <model>/<version>/<file>."),
    Code("TARN-2310", _A, "model in itself", "A model's directory lies in another one of the same name.", "Move the inner one up."),
    Code("TARN-2311", _A, "no version", "The model has a configuration, and no version directory.", "Make <model>/1 and put the model file into it; an ensemble's may be empty."),
    Code("TARN-2312", _W, "no version's name", "A version is named by a whole number without a leading zero; Triton ignores the others, and reads `2-old` as 2.", "Rename the directory."),
    Code("TARN-2313", _A, "model file beside the versions", "The model file lies in the model's directory, not in a version.", "Move it to <model>/1/."),
    Code("TARN-2314", _W, "version not there", "`version_policy` names a version that has no directory.", "Mend the number, or add the version."),
    Code("TARN-2315", _A, "no version chosen", "`version_policy` chooses none of the versions.", "Name one that is there, or leave the policy out."),
    Code("TARN-2316", _A, "empty version", "The version that would be served is empty.", "Put the model file into it."),
    Code("TARN-2317", _A, "version in itself", "The model file lies one level too deep: <model>/1/1/.", "Move it up."),
    Code("TARN-2318", _A, "model file missing", "The version has not the file that the back end wants; without a model.py Triton stays up and is never ready.", "Add the file, or name it in `default_model_filename`."),
    Code("TARN-2319", _A, "wrong case", "The model file's name differs from the right one in case.", "`tarn lint --fix` renames it."),
    Code("TARN-2320", _A, "not text", "A config.pbtxt is a binary file, UTF-16, or no file.", "Write it as UTF-8 text."),
    Code("TARN-2321", _A, "configuration too big", "A config.pbtxt is larger than any configuration.", "Check what was copied there."),
    Code("TARN-2322", _A, "configuration unreadable", "A config.pbtxt has a mistake of punctuation.", "Mend it at the line and column that the message gives."),
    Code("TARN-2323", _A, "unknown field", "Triton's configuration has no field of this name.", "Use the name that the message suggests, or remove it."),
    Code("TARN-2324", _A, "value of the wrong kind", "A field has a value of another type.", "Write it as the message says."),
    Code("TARN-2325", _A, "given twice", "A field may be there once, or excludes another one.", "Remove one of the two."),
    Code("TARN-2326", _A, "byte-order mark", "A config.pbtxt begins with a byte-order mark; Triton's parser refuses it.", "`tarn lint --fix` removes it."),
    Code("TARN-2327", _A, "configuration not read", "A file looks like the configuration, and has another name or place.", "Rename or move it to <model>/config.pbtxt; `tarn lint --fix` mends the case."),
    Code("TARN-2328", _A, "configuration missing", "Without a configuration Triton cannot know which back end the model needs.", "Write <model>/config.pbtxt with `backend`."),
    Code("TARN-2329", _W, "not UTF-8", "A config.pbtxt has bytes that are no UTF-8.", "Save it as UTF-8."),
    Code("TARN-2330", _A, "name differs", "`name` in config.pbtxt is not the directory's name.", "`tarn lint --fix` removes the line: Triton takes the directory's name."),
    Code("TARN-2331", _A, "name is no text", "A name has bytes that are no UTF-8 text, or control characters.", "Rename the file or directory."),
    Code("TARN-2332", _W, "name too long", "A model's name is so long that shared memory, metrics or logs cut it.", "Rename the directory."),
    Code("TARN-2333", _W, "odd name", "A model's name has characters that a URL must escape; Triton does not read the escapes.", "Rename the directory: letters, digits, '_', '-' and '.'."),
    Code("TARN-2334", _A, "no back end", "The configuration names no back end, and no file tells which one is meant.", "Write `backend`."),
    Code("TARN-2335", _A, "unknown back end", "There is no back end or platform of this name; it looks like a slip.", "Use the name that the message suggests."),
    Code("TARN-2336", _I, "back end of your own", "Triton's containers bring no back end of this name.", "Nothing, if you bring it."),
    Code("TARN-2337", _W, "two back ends", "`platform` and `backend` mean different back ends; `backend` wins.", "Remove `platform`."),
    Code("TARN-2340", _A, "preferred batch size", "A preferred batch size is below 1 or above `max_batch_size`.", "Raise the one or lower the other."),
    Code("TARN-2341", _W, "batching without batches", "`dynamic_batching` has no effect while `max_batch_size` is 0.", "Set `max_batch_size`, or remove it."),
    Code("TARN-2342", _A, "priority out of range", "A priority level is outside 1 to `priority_levels`; the default must be given.", "Mend the level."),
    Code("TARN-2343", _A, "negative batch size", "`max_batch_size` is below 0.", "Write 0 for no batching, or the largest batch."),
    Code("TARN-2350", _W, "no copies", "`instance_group.count` is below 1; Triton takes it for 1.", "Write 1 or more."),
    Code("TARN-2351", _A, "GPUs for another kind", "An `instance_group` lists GPUs and is not of KIND_GPU.", "Remove `gpus`, or make it KIND_GPU."),
    Code("TARN-2352", _I, "wants a GPU", "The model asks for a GPU, and the machine where lint runs has none.", "Nothing, if it is meant for another machine."),
    Code("TARN-2353", _I, "shared memory", "Many copies of Python models want more shared memory than a container has.", "Set `instance.resources.shm`."),
    Code("TARN-2360", _A, "tensor incomplete", "An input or output has no name, data_type or dims.", "Write what is missing."),
    Code("TARN-2361", _W, "tensor twice", "Two inputs, or two outputs, have one name.", "Remove one, or rename it."),
    Code("TARN-2362", _A, "wrong dimension", "A dimension is 0 or below -1.", "Write 1 or more, or -1 for any size."),
    Code("TARN-2363", _A, "format and dims", "FORMAT_NHWC and FORMAT_NCHW need three dimensions.", "Mend the dims, or remove the format."),
    Code("TARN-2364", _A, "wrong reshape", "A reshape has another number of elements, or makes a scalar without batching.", "Mend the shape."),
    Code("TARN-2365", _W, "no tensors", "A Python model says nowhere what it takes or gives, so nobody can ask it.", "Write `input` and `output`, or give it auto_complete_config."),
    Code("TARN-2370", _A, "incomplete ensemble", "An ensemble lacks its platform, a step or a map, or has what only models have.", "Mend what the message names."),
    Code("TARN-2371", _A, "step without a model", "A step of an ensemble names a model or version that is not there.", "Mend the name, or add the model."),
    Code("TARN-2372", _A, "step's tensors", "A step maps a tensor that its model does not have, or leaves an input empty.", "Mend the map."),
    Code("TARN-2373", _A, "ensemble's tensors", "A tensor of an ensemble is made by nobody, by two, or goes nowhere.", "Mend the maps."),
    Code("TARN-2374", _A, "ensemble in a circle", "An ensemble leads back to itself.", "Break the circle."),
    Code("TARN-2375", _A, "data types differ", "Two models of an ensemble take one tensor for different data types.", "Mend one of the configurations, or put a step between them."),
    Code("TARN-2380", _A, "named file missing", "The configuration names a file that is not in the model.", "Add the file, or mend the name."),
    Code("TARN-2381", _W, "parameter twice", "A parameter is given twice; the last counts.", "Remove one."),
    Code("TARN-2382", _A, "wrong parameter", "A back end does not take this value of a parameter.", "Write it as the message says."),
    # 30xx: providers
    Code("TARN-3000", _A, "provider failed", "A provider could not do its work.", "Read its message."),
    Code("TARN-3100", _A, "launch failed", "A runtime could not start an instance.", "Read its message."),
    Code("TARN-3101", _A, "no tritonserver", "No tritonserver was found.", "pip install 'tarn[local]', put tritonserver on PATH, or set triton.binary."),
    Code("TARN-3102", _A, "system too old", "The Triton wheel needs a newer C library.", "Use a system with glibc 2.35 or newer, or set triton.binary."),
    Code("TARN-3103", _A, "port taken", "A fixed port is in use by another process.", "Choose another port, or 0 for a free one."),
    Code("TARN-3104", _A, "no libpython", "Triton's Python backend needs the shared library of Python, and there is none.", "Install it (Debian: libpython3.11), or use a Python built with --enable-shared."),
    Code("TARN-3105", _A, "not enough GPUs", "The machine has fewer free GPUs than the instances ask for.", "Lower instance.resources.gpus or replicas.max."),
    Code("TARN-3106", _W, "not enough memory", "The instances ask for more memory than the machine has.", "Lower instance.resources.memory or replicas.min."),
    Code("TARN-3120", _A, "no Hadoop", "Hadoop's client jars, or one of their classes, were not found on this machine.", "Set runtime.options.hadoop_home or HADOOP_HOME, and HADOOP_CONF_DIR."),
    Code("TARN-3121", _A, "Hadoop too old", "Hadoop's client is older than 3.3.0.", "Name a newer one in runtime.options.hadoop_home."),
    Code("TARN-3122", _A, "no Java", "No Java was found, or one that is too old.", "Set runtime.options.java_home, or JAVA_HOME, to Java 11 or newer."),
    Code("TARN-3123", _A, "no JVM", "The JVM could not be started in this process.", "Read its message."),
    Code("TARN-3130", _A, "YARN does not answer", "The ResourceManager, or HDFS, could not be reached from here.", "Check HADOOP_CONF_DIR, which names the cluster, and that YARN is up."),
    Code("TARN-3131", _A, "Hadoop's client does not start", "Hadoop's client cannot work with the configuration that it found.", "Check the files in HADOOP_CONF_DIR; with Kerberos, set KRB5_CONFIG."),
    Code("TARN-3132", _A, "no Kerberos ticket", "This YARN asks for Kerberos, and this user has no valid ticket.", "Run kinit."),
    Code("TARN-3133", _A, "queue not usable", "The queue does not exist, is stopped, or takes no applications of this user.", "Name another one in runtime.options.queue; the message lists them."),
    Code("TARN-3134", _A, "container too large", "YARN grants no container of this size.", "Lower the named key, or have the named property of YARN raised."),
    Code("TARN-3135", _A, "no such accelerator", "YARN has no resource of this type, or not so many in one container.", "Mend instance.resources.gpu_resource or gpus."),
    Code("TARN-3136", _A, "node label not usable", "YARN has no such node label, or the queue may not use it.", "Mend the label, or choose another queue."),
    Code("TARN-3137", _W, "fewer attempts", "YARN allows a master fewer attempts than master.max_attempts.", "Have yarn.resourcemanager.am.max-attempts raised."),
    Code("TARN-3138", _A, "staging not writable", "The directory for the files of clusters cannot be written.", "Name another one in runtime.options.staging."),
    Code("TARN-3139", _A, "interpreter of the nodes", "The nodes may not have the named Python interpreter.", "Name the interpreter on the nodes by its whole path in runtime.options.python."),
    Code("TARN-3140", _W, "no placement constraints", "YARN takes no placement constraints, so TARN keeps only its own instances apart.", "Have yarn.resourcemanager.placement-constraints.handler set to scheduler."),
    Code("TARN-3141", _A, "master waits", "The master had no container, or said nothing, for a minute.", "Choose a queue with room, or lower master.memory."),
    Code("TARN-3200", _A, "storage failed", "A storage could not find, read or copy.", "Read its message."),
    Code("TARN-3201", _A, "disk full", "There is not enough space; the old copy stays usable.", "Free the named number of bytes."),
    Code("TARN-3300", _A, "discovery failed", "A discovery could not publish.", "Read its message."),
    Code("TARN-3301", _A, "ZooKeeper does not answer", "The servers of the ensemble could not be reached, or not in time; what was published stays.", "Check that they run and can be reached; with TLS, check its files: a failed handshake looks the same."),
    Code("TARN-3302", _A, "ZooKeeper refuses", "The ACL of a node does not let this user write, or the digest is wrong.", "Mend `digest`, or have the ACL changed."),
    Code("TARN-3303", _A, "node of somebody else", "A node with the name of an instance was made by somebody else, and is left alone.", "Choose another `path`, or have it removed."),
    Code("TARN-3304", _A, "cluster of another owner", "Another user's cluster of the same name is published below the same `path`; neither master is ended, and nothing of the other's is touched.", "Choose another `path` or name; where that cluster has gone for good, have its fleet node removed."),
    Code("TARN-3305", _A, "no such backend", "HAProxy has no backend of the name that was given.", "Name one that it has, or add it to haproxy.cfg: `tarn lb haproxy config` renders one."),
    Code("TARN-3306", _A, "HAProxy does not answer", "Nobody answers at the socket of HAProxy's Runtime API, or not in time; the last view is kept for it.", "Start HAProxy, or mend the path of the socket; servers are given to it as soon as it answers."),
    Code("TARN-3307", _A, "HAProxy does not obey", "The socket of HAProxy's Runtime API is not of the level admin, or this user may not use it.", "Write `stats socket PATH mode 660 group GROUP level admin` in haproxy.cfg, and reload HAProxy."),
    Code("TARN-3308", _A, "too few placeholder servers", "HAProxy has fewer placeholder servers than the fleet may have instances.", "Add some to haproxy.cfg, lower `replicas.max`, or let servers be added: no `slots`."),
    Code("TARN-3309", _A, "HAProxy refused a command", "HAProxy answered a command with a complaint; the commands about other servers were done.", "Mend what it complains about; the command is given again by itself."),
    # 331x: Knox; an alert keeps requests from being served, or from being served to all
    Code("TARN-3310", _A, "no jar for Knox", "This installation of TARN was made without the jar with which Knox follows ZooKeeper.", "Build it as the message says, or let Knox ask HAProxy (`tarn lb knox config --url`)."),
    Code("TARN-3311", _A, "no topology", "The file is no topology of Knox.", "Name a file such as those in Knox's conf/topologies."),
    Code("TARN-3312", _A, "topology unreadable", "The file is no well-formed XML.", "Mend it at the line that the message names."),
    Code("TARN-3313", _A, "document type", "The file declares a document type or entities; they can read other files, so nothing of it is looked at.", "Remove the DOCTYPE, and write the values themselves."),
    Code("TARN-3314", _A, "no Triton in it", "The topology has no service of the role TRITON.", "Add the service; `tarn lb knox config` writes a whole topology."),
    Code("TARN-3320", _A, "value on several lines", "HaProvider's value has blanks or line ends; Knox cuts at ';' and keeps them as a part of the key, so it knows none of these keys, and says nothing.", "Write the value on one line without blanks."),
    Code("TARN-3321", _W, "no load balancing", "HaProvider has no enableLoadBalancing=true: Knox sends every request to one instance until that one fails.", "Add enableLoadBalancing=true."),
    Code("TARN-3322", _W, "wrong namespace", "The path in zookeeperNamespace does not look like the one at which TARN publishes instances; its parent works with TARN's jar only.", "Write the path of `discovery`'s options, such as /services/triton/instances."),
    Code("TARN-3323", _W, "needs TARN's jar", "Knox itself follows no ZooKeeper for the role TRITON: without TARN's jar these parameters are passed over, and it says nothing.", "Put the jar of `tarn lb knox jar` into Knox's lib directory, and start Knox anew."),
    Code("TARN-3324", _A, "nobody to ask", "The service has no URL, and no HaProvider finds instances in ZooKeeper.", "Write the URL of a HAProxy, or the parameters for ZooKeeper."),
    Code("TARN-3325", _A, "half a place", "Only one of zookeeperEnsemble and zookeeperNamespace is given; both are needed.", "Add the other one."),
    Code("TARN-3326", _A, "several URLs, one used", "The service has several URLs and no HaProvider: Knox uses the first one only.", "Add a HaProvider with a parameter TRITON, or keep one URL."),
    Code("TARN-3327", _W, "key unknown to Knox", "HaProvider has a key that Knox does not know, and passes over.", "Use the key that the message suggests, or remove it."),
    Code("TARN-3328", _A, "no URL", "A URL of the service is no base URL.", "Write http://host:port, with nothing behind the port."),
    Code("TARN-3330", _A, "nobody authenticates", "The topology has no authentication provider: every request fails.", "Add the provider of your site: LDAP, Kerberos, tokens."),
    Code("TARN-3331", _A, "anybody gets in", "The authentication provider lets everybody in without a name.", "Use the provider of your site, unless this is meant."),
    Code("TARN-3332", _A, "Ranger sees no models", "Ranger's plugin for Knox (XASecurePDPKnox) decides by topology and service; it cannot see models.", "Let TARN's authorizer decide over models; keep the plugin for the rest, or use AclsAuthz."),
    Code("TARN-3333", _W, "who may is not said", "No authorization provider: whoever is authenticated may use every model.", "Add AclsAuthz with TRITON.acl, or let TARN's authorizer decide."),
    Code("TARN-3334", _W, "password in the file", "The topology holds passwords of users in plain text.", "Use a provider that keeps them elsewhere; for tests only, if at all."),
    # 35xx: the sandbox
    Code("TARN-3501", _A, "program missing", "The sandbox needs a program that is not on this machine, or too old.", "Install what the message names."),
    Code("TARN-3502", _A, "no jars", "Hadoop's jars could not be brought.", "Read Maven's words; or name an installation with --hadoop-home."),
    Code("TARN-3503", _A, "host names missing", "The sandbox's host names do not lead to its loopback addresses.", "Add the lines that the message holds to /etc/hosts."),
    Code("TARN-3504", _A, "address taken", "Another process listens where a daemon of the sandbox would.", "End it, or choose another --network."),
    Code("TARN-3505", _A, "daemon ended", "A daemon of the sandbox ended by itself.", "Read its log; the message names it."),
    Code("TARN-3506", _A, "no Kerberos realm", "The sandbox's Kerberos realm could not be made, or gave no ticket.", "Read the message; `tarn sandbox down` and `up` begin anew."),
    # 36xx: what `tarn doctor` finds around a cluster
    Code("TARN-3600", _A, "directory not writable", "What is known of clusters cannot be kept in TARN's directory.", "Set TARN_HOME to a directory that you may write."),
    Code("TARN-3601", _W, "directory open to others", "Other users may put files where TARN keeps what it trusts.", "Take the right to write away from others: `chmod 700` the directory that the message names."),
    Code("TARN-3602", _W, "little disk space", "The disk on which clusters keep their files is nearly full.", "Free some, or set TARN_HOME to a directory on another disk."),
    Code("TARN-3603", _W, "clocks differ", "The clock of a server and the one of this machine are not the same: times in logs and reports mislead, and from five minutes on Kerberos lets nobody in.", "Set the wrong clock by NTP."),
    Code("TARN-3604", _W, "master behind a proxy", "The master is not reached straight from this machine, only through its runtime's proxy: it takes no api token along, and holds streams back.", "Have the port opened; `api.port` says which one it is."),
    Code("TARN-3605", _A, "master out of reach", "The cluster runs, and its master is reached neither straight nor through a proxy.", "Check the name, the port and the firewalls between."),
    Code("TARN-3606", _W, "some ZooKeeper servers silent", "Some servers of the ensemble do not answer; the others carry on, until they are too few.", "Start the servers that the message names, or take them out of `ensemble`."),
    # 40xx: finding and reaching
    Code("TARN-4000", _A, "not found", "There is no such cluster, instance or code.", "`tarn status` lists what there is."),
    Code("TARN-4001", _A, "unreachable", "It exists, and does not answer.", "Read the message; it names what was tried."),
    Code("TARN-4002", _A, "timed out", "A deadline passed.", "Wait longer with --timeout, or see `tarn why`."),
    Code("TARN-4003", _A, "no master", "Instances serve, but no master is at work.", "`tarn up` starts one that takes them over."),
    Code("TARN-4004", _I, "ended", "The cluster has ended, and its runtime remembers how.", "`tarn up` starts it anew; `tarn logs` shows what it wrote."),
    # 50xx: identity
    Code("TARN-5000", _A, "not authorized", "The authorizer said no, or the api token is missing or wrong.", "Use the owner's account, or pass the api token."),
    # 60xx: plugins
    Code("TARN-6000", _A, "plugin error", "A plugin broke the rules of its hook.", "Tell its author; the message names it."),
    Code("TARN-6001", _A, "provider missing", "No plugin offers the name, or its modules are not installed.", "Install what the message names."),
)  # fmt: skip

CODES: dict[str, Code] = {code.code: code for code in _TABLE}
