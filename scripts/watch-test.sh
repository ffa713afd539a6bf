#!/usr/bin/env bash
# Runs a test program and fails it if it hangs: when nothing has been printed for FROND_TEST_LIMIT
# seconds (default 900), it prints the stacks of all threads, kills the program with its children,
# and exits with 124.
#
#   scripts/watch-test.sh PROGRAM [ARGUMENT]…
#
# The Makefile passes it to cargo as the runner of all test programs. These print a line for each
# test that ends, so the limit is the time between two ends. Stacks need gdb (scripts/install.sh
# checks) and permission to attach to a process of the same user; otherwise the state of each thread
# is printed as the kernel reports it.
set -euo pipefail
export LC_ALL=C

limit=${FROND_TEST_LIMIT:-900}
program=$1

# It gets a session of its own, whose number identifies all processes of the test, to find and kill
# them.
exec {lines}< <(exec setsid "$@")
session=$!
trap 'kill -KILL -- "-$session" 2>/dev/null || true' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

processes() { # processes: the processes of the session
    local directory status fields
    for directory in /proc/[0-9]*; do
        status=$(cat "$directory/stat" 2>/dev/null) || continue
        # The name in parentheses may contain spaces: state, parent, group and session follow it.
        read -ra fields <<<"${status##*)}"
        if [[ ${fields[3]} == "$session" ]]; then echo "${directory#/proc/}"; fi
    done
}

stacks() { # stacks PID
    local thread traced
    traced=$(timeout 300 gdb -batch -nx -iex 'set debuginfod enabled off' -p "$1" \
        -ex 'thread apply all backtrace' 2>&1) || true
    printf '%s\n' "$traced"
    if [[ $traced == *$'\n#0 '* ]]; then return; fi
    echo "gdb is not installed or may not attach (kernel.yama.ptrace_scope): threads as the kernel knows them"
    for thread in "/proc/$1/task"/*; do
        echo "thread ${thread##*/} $(cat "$thread/comm"): state $(sed 's/.*) \(.\).*/\1/' "$thread/stat"), waits in" \
            "$(cat "$thread/wchan" || true), system call $(cat "$thread/syscall" || true)"
        cat "$thread/stack" 2>/dev/null || true
    done
}

hangs() {
    local process
    echo
    echo "== $program hangs: it has printed nothing for $limit seconds. Stacks of all threads:"
    for process in $(processes); do
        echo "== process $process: $(tr '\0' ' ' <"/proc/$process/cmdline" || true)"
        stacks "$process" 2>&1 || true
    done
    echo "== $program is killed"
    exit 124
}

while true; do
    if IFS= read -r -t "$limit" line <&"$lines"; then
        printf '%s\n' "$line"
    else
        ended=$?
        printf '%s' "$line"
        if ((ended > 128)); then hangs; fi
        break
    fi
done
wait "$session"
