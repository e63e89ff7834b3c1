//! Linux as the guest of `vmbell run` on x86-64.

mod advice;
mod consoles;
mod devices;
mod disks;
mod kicks;
mod networks;
mod notification_data;
mod traces;
mod vhost;
mod vhost_user;

use vmbell_lab::arch::Arch;
use vmbell_lab::board::X86_64;
use vmbell_lab::cache::Cache;
use vmbell_lab::qemu::Qemu;
use vmbell_lab::{LabProgress, Provision};

use super::boots::linux::{KERNEL, PARTS};
use super::boots::session::Session;

/// The L1 of these tests, with the modules that devices need.
static L1: Session = Session::new(
    &[
        "--module",
        "tun",
        "--module",
        "vhost_net",
        "--module",
        "vhost_vsock",
    ],
    tools,
);

/// Programs that busybox lacks or has with other options, QEMU's storage daemon with its libraries, and the modules for
/// the guests of `vmbell bench net`.
fn tools() -> Vec<String> {
    let tools = [
        "/usr/bin/script",
        "/usr/bin/setpriv",
        "/usr/bin/ip",
        "/usr/sbin/mkfs.ext4",
        "/usr/sbin/e2fsck",
    ];
    let daemon = qemu().files().into_iter();
    let daemon = daemon.map(|file| file.to_str().unwrap().to_owned());
    let modules = PARTS.0.modules.as_ref().unwrap();
    let modules = format!("{}:/modules", modules.display());
    let tools = tools.map(str::to_owned).into_iter();
    tools.chain(daemon).chain([modules]).collect()
}

fn qemu() -> Qemu {
    let cache = Cache::user().unwrap();
    let host = Arch::host().unwrap();
    let mut provision = Provision::new(host, &X86_64, &cache, LabProgress::new(true));
    let qemu = provision.qemu(None).unwrap();
    provision.finish().unwrap();
    qemu
}

/// A script that starts a guest, whose process is `$pid`. `echo >&3` types a line into it, and `reach TEXT` waits until
/// its console shows the text.
fn typed_to(guest: &str) -> String {
    format!(
        "mkfifo keys && exec 3<>keys
         reach() {{
             until grep -q \"$1\" console; do kill -0 $pid || exit 1; sleep 0.1; done
         }}
         : >console; {guest} >console <keys & pid=$!"
    )
}

/// A script that runs the guest under QEMU with these options until the guest is ready. Its process is `$pid`, and the
/// file `qemu` is [`Qemu::script`].
fn in_qemu(options: &str) -> String {
    format!(
        "for try in 1 2 3; do
             ./qemu -M pc,accel=kvm -m 256 -nodefaults -no-user-config -no-reboot -display none -serial stdio \
                 -kernel {KERNEL} -initrd initrd -append 'console=ttyS0 panic=-1 quiet cryptomgr.notests' \
                 {options} </dev/null >console 2>&1 & pid=$!
             for time in $(seq 600); do
                 grep -q ready console && break 2
                 kill -0 $pid || break
                 sleep 0.5
             done
             # It may hang under emulated SVM: docs/emulator-bugs.md.
             kill -KILL $pid; wait $pid
         done"
    )
}
