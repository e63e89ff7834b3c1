//! The main function of process 1 in L1, from its start to the end of the machine.

use std::fs;
use std::io;
use std::path::Path;

use super::{control, devices, exit, files, held, modules, mounts, ports, program};
use crate::job::{
    EXTRA_MODULE_FOLDER, Ending, INIT_FILE, JOB_FILE, Job, MODULE_FOLDER, Message, OUT_FOLDER,
    Report, port,
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
    // The control port's driver may be among them.
    notes.extend(modules::load_all(MODULE_FOLDER));
    if let Err(error) = control::open() {
        eprintln!("lab: cannot open the control port: {error}");
        exit::leave(127);
    }
    notes.extend(modules::load_all(EXTRA_MODULE_FOLDER));
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
    let code = report.ending.exit_code();
    let message = Message::Report(report);
    if let Err(error) = control::send(&message).and_then(|()| control::wait_for_leave()) {
        // The console is the only other way to the host.
        eprintln!("lab: cannot report {message:?}: {error}");
    }
    exit::leave(code);
}

fn run_job() -> io::Result<Report> {
    for folder in ["/tmp", "/root", "/run", "/var", OUT_FOLDER] {
        fs::create_dir_all(folder)?;
    }
    let job: Job = serde_json::from_slice(&fs::read(JOB_FILE)?)?;
    devices::prepare(&job.devices)?;
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
