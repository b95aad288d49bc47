#!/bin/sh
# Keep the servers of a HAProxy in step with a TARN fleet: update_haproxy.sh SOCKET [TOKEN]
#
# The call of the Java TARN's script, for units and configurations that have it: `tarn lb haproxy`
# with its placeholder servers triton-1, triton-2, ... It pushes changes; nothing is polled.
#
#   SOCKET        HAProxy's Runtime API, "level admin"
#   TOKEN         the api token. Everybody on the machine can read it in `ps`, so better:
#   $CREDENTIALS_DIRECTORY/api_token   where systemd puts it (LoadCredential=); goes before TOKEN
#   $TARN_CLUSTER the cluster, where more than one runs
#
# It becomes `tarn`: signals and the exit code are those of the agent.
set -eu

case $# in
1 | 2) ;;
*)
    echo "usage: ${0##*/} SOCKET [TOKEN]" >&2
    exit 2
    ;;
esac

socket=$1 token_file=
if [ -n "${CREDENTIALS_DIRECTORY:-}" ] && [ -r "$CREDENTIALS_DIRECTORY/api_token" ]; then
    token_file=$CREDENTIALS_DIRECTORY/api_token
elif [ -n "${2:-}" ]; then
    # An open file without a name: `tarn` can read it, and nothing is left when that is killed.
    # `cat` gets the token through its input; no program has it as an argument.
    umask 077
    named=$(mktemp "${TMPDIR:-/tmp}/tarn-token.XXXXXX")
    trap 'rm -f "$named"' EXIT
    trap 'exit 1' HUP INT TERM
    cat >"$named" <<END
$2
END
    exec 3<"$named"
    rm -f "$named"
    trap - EXIT HUP INT TERM
    token_file=/dev/fd/3
fi

set -- --socket "$socket" --slots triton-
[ -z "${TARN_CLUSTER:-}" ] || set -- "$@" -c "$TARN_CLUSTER"
[ -z "$token_file" ] || set -- "$@" --token-file "$token_file"
exec tarn lb haproxy "$@"
