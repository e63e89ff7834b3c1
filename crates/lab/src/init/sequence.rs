//! The main function of process 1 in L1, from its start to the end of the machine.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::mpsc;
use std::thread;

#[cfg(target_arch = "x86_64")]
use super::held;
use super::{exit, files, modules, mounts, ports, program};
use crate::job::{
    EXTRA_MODULE_FOLDER, Ending, INIT_FILE, JOB_FILE, Job, MODULE_FOLDER, OUT_FOLDER, Report, port,
};

/// Whether this process is process 1.
pub fn is_called() -> bool {
    std::process::id() == 1
        && std::env::args_os()
            .next()
            .is_some_and(|name| name == INIT_FILE)
}

/// Runs the job and ends the machine.
pub fn main() -> ! {
    let mut notes = mounts::mount_all();
    if let Err(error) = watch_host() {
        eprintln!("lab: cannot open the control port: {error}");
        exit::leave(127);
    }
    for folder in [MODULE_FOLDER, EXTRA_MODULE_FOLDER] {
        notes.extend(modules::load_all(folder));
    }
    #[cfg(target_arch = "x86_64")]
    let _held = held::guests();
    let mut report = match run_job() {
        Ok(report) => report,
        Err(error) => Report {
            ending: Ending::Failed(error.to_string()),
            sent: [0; 3],
            notes: Vec::new(),
        },
    };
    report.notes.splice(..0, notes);
    if let Err(error) = deliver(&report) {
        // The console is the only other way to the host.
        eprintln!("lab: cannot report {report:?}: {error}");
    }
    exit::leave(report.ending.exit_code());
}

fn run_job() -> io::Result<Report> {
    for folder in ["/tmp", "/root", "/run", "/var", OUT_FOLDER] {
        fs::create_dir_all(folder)?;
    }
    let job: Job = serde_json::from_slice(&fs::read(JOB_FILE)?)?;
    let (ending, [stdout, stderr]) = program::run(&job)?;
    let mut report = Report {
        ending,
        sent: [stdout, stderr, 0],
        notes: Vec::new(),
    };
    if job.files {
        match ports::open(port::FILES).and_then(|port| files::send(Path::new(OUT_FOLDER), port)) {
            Ok(length) => report.sent[2] = length,
            Err(error) => report
                .notes
                .push(format!("cannot send {OUT_FOLDER}: {error}")),
        }
    }
    Ok(report)
}

/// The control port, shared by all its users because it can be opened only once.
static CONTROL: std::sync::OnceLock<(File, std::sync::Mutex<mpsc::Receiver<()>>)> =
    std::sync::OnceLock::new();

/// Starts a thread that passes on the host's acknowledgement, and ends L1 if the host closes the control port.
fn watch_host() -> io::Result<()> {
    let control = ports::open(port::CONTROL)?;
    let mut reader = control.try_clone()?;
    let (sender, receiver) = mpsc::channel();
    let _ = CONTROL.set((control, std::sync::Mutex::new(receiver)));
    thread::spawn(move || {
        let mut byte = [0];
        while let Ok(1) = reader.read(&mut byte) {
            let _ = sender.send(());
        }
        exit::leave(127);
    });
    Ok(())
}

/// Sends the report and waits until the host has read every stream to its end: ending L1 ends QEMU at once,
/// and the bytes that QEMU had not passed on would be lost.
fn deliver(report: &Report) -> io::Result<()> {
    let (control, acknowledged) = CONTROL
        .get()
        .ok_or_else(|| io::Error::other("no control port"))?;
    let mut line = serde_json::to_vec(report)?;
    line.push(b'\n');
    let mut port = control;
    port.write_all(&line)?;
    let receiver = acknowledged
        .lock()
        .map_err(|_| io::Error::other("the control port's lock is poisoned"))?;
    receiver.recv().map_err(io::Error::other)
}
