//! QEMU, by QMP. Its guest memory is a file that QEMU leaves out of the migration stream (`x-ignore-shared`), so that a
//! snapshot is that file and a stream of the devices' state.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use serde_json::{Value, json};

use super::{
    COMMAND, MAX_SNAPSHOT, MEMORY, MEMORY_MIB, SweepGuest, SweptVm, SweptVmm, VmError, answered,
    filled, find, spawn, text, transferred,
};
use crate::process::RunningProgram;
use crate::process::program::no_kvm;
use crate::suites::vmms::{BARE, QEMU};
use vmbell_bench::CommandLimit;
use vmbell_sweep::api::DeadlineStream;
use vmbell_sweep::api::qmp::Qmp;
use vmbell_sweep::report::{Device, Event};

/// How often QEMU is asked whether a migration is complete.
const POLL: Duration = Duration::from_millis(1);

/// A board of QEMU.
#[derive(Clone, Debug)]
pub(super) struct Qemu {
    name: &'static str,
    board: &'static str,
    program: Option<String>,
}

impl Qemu {
    /// The board with this name of a VMM.
    pub(super) fn new(name: &str, program: Option<String>) -> Option<Self> {
        let boards = [
            ("qemu-pc", "pc"),
            ("qemu-q35", "q35"),
            ("qemu-microvm", "microvm"),
        ];
        let mut boards = boards.into_iter();
        let (name, board) = boards.find(|(of, _)| *of == name)?;
        Some(Self {
            name,
            board,
            program,
        })
    }

    /// The command line, with files for guest memory and the control socket.
    fn words(
        &self,
        program: &Path,
        guest: &SweepGuest<'_>,
        [memory, socket]: [&Path; 2],
    ) -> Result<Vec<OsString>> {
        let is_mmio = self.board == "microvm";
        let (bus, rom) = if is_mmio {
            ("device", "")
        } else {
            ("pci", ",romfile=")
        };
        let ms = guest.limiter_ms;
        let packed = if guest.traffic.packed { "on" } else { "off" };
        let escaped = |path: &Path| Ok::<_, anyhow::Error>(text(path)?.replace(',', ",,"));
        let (disk, image) = (guest.desk.disk(), guest.desk.image());
        let (size, rate) = (format!("{MEMORY_MIB}M"), (1000 / ms.max(1)).to_string());
        let period = ms.to_string();
        let [memory, disk] = [escaped(memory)?, escaped(&disk)?];
        let values = [
            ("{bare}", BARE),
            ("{board}", self.board),
            ("{accel}", self.accelerator()),
            ("{size}", &size),
            ("{memory}", &memory),
            ("{disk}", &disk),
            ("{bus}", bus),
            ("{rom}", rom),
            ("{packed}", packed),
            ("{rate}", &rate),
            ("{period}", &period),
        ];
        let device = match (guest.traffic.device, ms) {
            (Device::Blk, 0) => {
                "-drive if=none,id=disk,format=raw,readonly=on,file={disk} -device virtio-blk-{bus},drive=disk,packed={packed}"
            }
            (Device::Blk, _) => {
                "-drive if=none,id=disk,format=raw,readonly=on,throttling.iops-total={rate},file={disk} \
                 -device virtio-blk-{bus},drive=disk,packed={packed}"
            }
            // A hub with one port keeps all frames.
            (Device::Net, 0) => {
                "-netdev hubport,id=net,hubid=0 -netdev hubport,id=sink,hubid=0 \
                 -device virtio-net-{bus},netdev=net,packed={packed}{rom}"
            }
            // The timer by which it may put off sending, in nanoseconds.
            (Device::Net, _) => {
                "-netdev hubport,id=net,hubid=0 -netdev hubport,id=sink,hubid=0 \
                 -device virtio-net-{bus},netdev=net,tx=timer,x-txtimer={period}000000,packed={packed}{rom}"
            }
            (Device::Rng, 0) => "-device virtio-rng-{bus},packed={packed}{rom}",
            (Device::Rng, _) => {
                "-device virtio-rng-{bus},max-bytes=16,period={period},packed={packed}{rom}"
            }
        };
        let mut words = vec![program.into()];
        let machine = BARE.split(' ').collect::<Vec<_>>().join(" ");
        words.extend(filled(&machine, &[]));
        words.extend(filled(
            "-M {board},accel={accel},memory-backend=ram -smp 1 -m {size} \
             -object memory-backend-file,id=ram,size={size},share=on,mem-path={memory}",
            &values,
        ));
        words.extend(filled(device, &values));
        if is_mmio {
            words.extend(filled("-global virtio-mmio.force-legacy=false", &[]));
        }
        words.extend(["-kernel".into(), image.into()]);
        words.extend(["-append".into(), guest.cmdline.into()]);
        let socket = escaped(socket)?;
        words.extend([
            "-qmp".into(),
            format!("unix:{socket},server=on,wait=off").into(),
        ]);
        Ok(words)
    }

    fn launch(
        &self,
        guest: &SweepGuest<'_>,
        memory: PathBuf,
        more: &[&str],
    ) -> Result<QemuVm, VmError> {
        let program = self.program().map_err(anyhow::Error::msg)?;
        let socket = guest.desk.fresh("qmp");
        let mut words = self.words(&program, guest, [&memory, &socket])?;
        words.extend(more.iter().map(OsString::from));
        let mut vm = QemuVm {
            qemu: self.clone(),
            process: spawn(&words)?,
            qmp: None,
            memory,
            stream: guest.desk.fresh("stream"),
            limit: guest.desk.limit.clone(),
        };
        let has_ended = || vm.process.has_exited().unwrap_or(true);
        let connected = Qmp::connect(&socket, COMMAND, has_ended);
        vm.qmp = Some(answered(&mut vm.process, &vm.limit, connected)?);
        Ok(vm)
    }
}

impl SweptVmm for Qemu {
    fn name(&self) -> &str {
        self.name
    }

    fn program(&self) -> Result<PathBuf, String> {
        find(self.program.as_ref(), QEMU)
    }

    fn accelerator(&self) -> &'static str {
        if no_kvm().is_some() { "tcg" } else { "kvm" }
    }

    fn lacks(&self, _: Event, _: Device) -> Option<String> {
        None
    }

    fn limits(&self, _: Device) -> bool {
        true
    }

    fn start(&self, guest: &SweepGuest<'_>) -> Result<Box<dyn SweptVm>, VmError> {
        let memory = guest.desk.fresh("memory");
        Ok(Box::new(self.launch(guest, memory, &[])?))
    }

    fn restore(
        &self,
        guest: &SweepGuest<'_>,
        snapshot: &Path,
    ) -> Result<Box<dyn SweptVm>, VmError> {
        let memory = guest.desk.fresh("memory");
        let saved = snapshot.join(MEMORY_FILE);
        copy_data(&saved, &memory).with_context(|| format!("cannot copy {}", saved.display()))?;
        let mut vm = self.launch(guest, memory, &["-incoming", "defer"])?;
        vm.set(&SAVED)?;
        let uri = format!("unix:{}", text(&vm.stream)?);
        vm.execute("migrate-incoming", json!({ "uri": uri }))?;
        let state = fs::read(snapshot.join(STATE_FILE)).context("cannot read the saved state")?;
        let has_ended = || vm.process.has_exited().unwrap_or(true);
        let connected = DeadlineStream::connect(&vm.stream, COMMAND, has_ended);
        let mut stream = answered(&mut vm.process, &vm.limit, connected)?;
        let written = stream.write_all(&state);
        let what = "send the saved state";
        transferred(&mut vm.process, &vm.limit, what, written)?;
        drop(stream);
        vm.wait("query-status", |status| match status {
            "inmigrate" => Some(false),
            "paused" | "prelaunch" => Some(true),
            _ => None,
        })?;
        vm.resume()?;
        Ok(Box::new(vm))
    }

    fn memory_file(&self, snapshot: &Path) -> Option<PathBuf> {
        Some(snapshot.join(MEMORY_FILE))
    }
}

/// The capabilities of a live migration: memory is sent too, and the VM is paused before the last part.
const LIVE: [(&str, bool); 2] = [
    ("x-ignore-shared", false),
    ("pause-before-switchover", true),
];
/// Those of a snapshot: memory is in a file.
const SAVED: [(&str, bool); 2] = [
    ("x-ignore-shared", true),
    ("pause-before-switchover", false),
];
const READ: &str = "read the state";
const MEMORY_FILE: &str = "memory";
const STATE_FILE: &str = "state";

/// Copies a file without its holes: a guest touches little of its memory.
fn copy_data(from: &Path, to: &Path) -> io::Result<()> {
    let (mut from, mut to) = (File::open(from)?, File::create(to)?);
    let len = from.metadata()?.len();
    to.set_len(len)?;
    let mut at = 0;
    while at < len {
        let data = match seek(&from, SeekFrom::Data(at)) {
            // Only a hole is left.
            Err(Errno::NXIO) => break,
            data => data?,
        };
        let hole = seek(&from, SeekFrom::Hole(data))?;
        seek(&from, SeekFrom::Start(data))?;
        seek(&to, SeekFrom::Start(data))?;
        io::copy(&mut (&mut from).take(hole - data), &mut to)?;
        at = hole;
    }
    Ok(())
}

/// A QEMU that runs.
struct QemuVm {
    qemu: Qemu,
    process: RunningProgram,
    /// Its QMP; nothing until it is connected.
    qmp: Option<Qmp>,
    memory: PathBuf,
    /// The socket of the migration stream.
    stream: PathBuf,
    limit: CommandLimit,
}

impl QemuVm {
    fn execute(&mut self, command: &str, arguments: Value) -> Result<Value, VmError> {
        let qmp = self.qmp.as_mut().context("QEMU is not connected")?;
        let result = qmp.execute(command, arguments);
        answered(&mut self.process, &self.limit, result)
    }

    /// Sets capabilities of migrations.
    fn set(&mut self, capabilities: &[(&str, bool)]) -> Result<(), VmError> {
        let capability = |(name, state)| json!({ "capability": name, "state": state });
        let capabilities: Vec<Value> = capabilities.iter().copied().map(capability).collect();
        let arguments = json!({ "capabilities": capabilities });
        self.execute("migrate-set-capabilities", arguments)
            .map(drop)
    }

    /// Asks for a status until it is accepted. `None` means that QEMU failed.
    fn wait(&mut self, query: &str, is_done: impl Fn(&str) -> Option<bool>) -> Result<(), VmError> {
        let begun = Instant::now();
        loop {
            let answer = self.execute(query, json!({}))?;
            let status = answer.get("status").and_then(Value::as_str).unwrap_or("");
            match is_done(status) {
                Some(true) => return Ok(()),
                None => return Err(VmError::Vmm(format!("{query}: QEMU is '{status}'"))),
                Some(false) if begun.elapsed() > COMMAND => {
                    return Err(VmError::TimedOut(query.to_owned()));
                }
                Some(false) => thread::sleep(POLL),
            }
        }
    }
}

impl Drop for QemuVm {
    fn drop(&mut self) {
        // The folder is removed at the end; until then, only its size matters.
        let _ = fs::remove_file(&self.memory);
        let _ = fs::remove_file(&self.stream);
    }
}

impl SweptVm for QemuVm {
    fn process(&mut self) -> &mut RunningProgram {
        &mut self.process
    }

    fn pause(&mut self) -> Result<(), VmError> {
        self.execute("stop", json!({})).map(drop)
    }

    fn resume(&mut self) -> Result<(), VmError> {
        self.execute("cont", json!({})).map(drop)
    }

    fn snapshot(&mut self, folder: &Path) -> Result<(), VmError> {
        let _ = fs::remove_file(&self.stream);
        let listener = UnixListener::bind(&self.stream).context("cannot make a socket")?;
        let nonblocking = listener.set_nonblocking(true);
        nonblocking.context("cannot set up a socket")?;
        self.set(&SAVED)?;
        let uri = format!("unix:{}", text(&self.stream)?);
        self.execute("migrate", json!({ "uri": uri }))?;
        let begun = Instant::now();
        let stream = loop {
            match listener.accept() {
                Ok((stream, _)) => break stream,
                Err(error)
                    if error.kind() == ErrorKind::WouldBlock && begun.elapsed() < COMMAND =>
                {
                    thread::sleep(POLL);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Err(VmError::TimedOut(READ.to_owned()));
                }
                Err(error) => {
                    let error = anyhow::Error::new(error);
                    return Err(error.context("cannot accept a connection").into());
                }
            }
        };
        let blocking = stream.set_nonblocking(false);
        blocking.context("cannot set up a socket")?;
        let most = MAX_SNAPSHOT - MEMORY;
        let mut state = Vec::new();
        let mut stream = DeadlineStream::new(stream, COMMAND).take(most);
        let count = stream.read_to_end(&mut state);
        let count = transferred(&mut self.process, &self.limit, READ, count)?;
        if count as u64 == most {
            let text = format!("QEMU's state has more than {most} bytes");
            return Err(VmError::Vmm(text));
        }
        fs::write(folder.join(STATE_FILE), state).context("cannot write the state")?;
        self.wait("query-migrate", |status| match status {
            "completed" => Some(true),
            "failed" | "cancelled" => None,
            _ => Some(false),
        })?;
        let saved = folder.join(MEMORY_FILE);
        copy_data(&self.memory, &saved).context("cannot save guest memory")?;
        Ok(())
    }

    fn send(&mut self, guest: &SweepGuest<'_>) -> Result<Box<dyn SweptVm>, VmError> {
        let memory = guest.desk.fresh("memory");
        let mut destination = self.qemu.launch(guest, memory, &["-incoming", "defer"])?;
        let uri = format!("unix:{}", text(&destination.stream)?);
        destination.set(&LIVE)?;
        destination.execute("migrate-incoming", json!({ "uri": uri }))?;
        self.set(&LIVE)?;
        self.execute("migrate", json!({ "uri": uri }))?;
        self.wait("query-migrate", |status| match status {
            "pre-switchover" => Some(true),
            "failed" | "cancelled" | "completed" => None,
            _ => Some(false),
        })?;
        Ok(Box::new(destination))
    }

    fn switch_over(&mut self) -> Result<(), VmError> {
        let state = json!({ "state": "pre-switchover" });
        self.execute("migrate-continue", state)?;
        self.wait("query-migrate", |status| match status {
            "completed" => Some(true),
            "failed" | "cancelled" => None,
            _ => Some(false),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::{FileExt, MetadataExt};

    use super::*;

    #[test]
    fn a_copy_has_all_bytes_and_no_memory_for_holes() {
        let folder = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
        for pieces in [&[][..], &[0], &[5 << 20], &[0, 3 << 20, (8 << 20) - 4096]] {
            let file = File::create(&from).unwrap();
            file.set_len(8 << 20).unwrap();
            for piece in pieces {
                file.write_all_at(&[7; 4096], *piece).unwrap();
            }
            (&file).flush().unwrap();
            copy_data(&from, &to).unwrap();
            assert!(
                fs::read(&from).unwrap() == fs::read(&to).unwrap(),
                "{pieces:?}"
            );
            let blocks = |path: &Path| fs::metadata(path).unwrap().blocks();
            assert!(blocks(&to) <= blocks(&from), "{pieces:?}");
        }
    }
}
