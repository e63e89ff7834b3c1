# What the scripts of the tests of `vmbell top` have in common. `$1` is the command, and `$2` a guest that writes 2000 times to a
# port.
vmbell=$1 guest=$2
fail() { echo "$*"; exit 1; }
lines() { grep -c . /out/lines; }
attached() { grep -c '\[kvm\]' /sys/kernel/tracing/enabled_functions; }
# Waits until this is so, but not for ever: what is said after it shows that it never came.
soon() { local n=0; until eval "$1" || [ $n = 600 ]; do n=$((n + 1)); sleep 0.2; done; }
# Waits for two lines: what was counted before is in the second one.
seen() { local n; n=$(($(lines) + 2)); until [ $(lines) -ge $n ]; do sleep 0.1; done; }
start_top() { "$vmbell" top --json -d 300ms "$@" >/out/lines & top=$!; until [ -s /out/lines ]; do sleep 0.1; done; }
# Waits until a guest has done what it does: it says how often it exited, and how often it rang.
has_run() { until grep -q '^[0-9]* [0-9]*$' /out/$1; do kill -0 $! || fail the guest failed; sleep 0.1; done; }
# A guest that waits after that until its standard input ends.
start_guest() { mkfifo /$1; "$guest" $1 </$1 >/out/$1 & echo $1: $!; exec 3>/$1; has_run $1; }
# Ends the command, and then the guest.
stop() { kill $top $*; wait $top $*; exec 3>&-; wait; }
# Rows of the bench, one after the other, each with the number of its process.
bench_rows() {
    for row in "$@"; do
        "$vmbell" bench --backend kvm --only $row --runs 1 --ops 300 >/out/$row 2>&1 & pid=$!
        wait $pid || fail $row failed; echo $row: $pid; seen
    done
}
# Two guests that notify in different ways, and wait after that until their standard input ends.
start_guests() {
    for way in exit ioeventfd; do
        mkfifo /$way; "$guest" $way </$way >/out/$way & echo $way: $!
    done
    exec 3>/exit 4>/ioeventfd
    has_run exit; has_run ioeventfd
}
