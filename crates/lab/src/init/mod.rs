//! The part of `vmbell` that is process 1 in L1, and in each Linux inside it.
//!
//! The loader has already mounted the kernel's file systems and loaded modules. Process 1 binds devices to their
//! drivers, runs the job's program with pipes that are copied to virtio-serial ports (in Bochs, to an I/O port), and
//! sends the files that the program left. It reports how the program ended and what a kernel that checks itself has
//! found, waits until the host has read everything, and ends L1 through the debug-exit port. It kills the program if the
//! host asks for that, and ends L1 if the host closes the control port. For a Linux inside this one, `nested` starts that Linux before the job
//! arrives, and the program runs there.

mod check;
mod control;
mod devices;
mod exits;
mod frames;
mod held;
mod nested;
mod parameters;
mod program;

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use crate::complaints;
use crate::job::{InitJob, InitMessage, JOB_FILE, OUT_FOLDER, ProgramEnding, RunReport, port};
use control::HostRequest;
use loader::window::{INIT_FILE, NOTES_FILE};
use nested::StartedLinux;

/// The name of this machine.
const NAME: &str = "vmbell-lab";
/// Files that programs read to look up names. The caller's files take precedence.
const NAMES: [(&str, &str); 4] = [
    ("/etc/hostname", "vmbell-lab\n"),
    (
        "/etc/hosts",
        "127.0.0.1 localhost vmbell-lab\n::1 localhost\n",
    ),
    ("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\n"),
    ("/etc/group", "root:x:0:\n"),
];

/// Returns whether this process is process 1.
pub fn is_called() -> bool {
    std::process::id() == 1
        && std::env::args_os()
            .next()
            .is_some_and(|name| name == INIT_FILE)
}

/// Does what the host asks of the program, or passes the request to the Linux inside if the program runs there.
fn obey(request: HostRequest) {
    if nested::pass(request) {
        return;
    }
    match request {
        HostRequest::Stop => program::stop(),
        HostRequest::End => program::end(),
        HostRequest::Unread(stream) => program::unread(stream),
    }
}

/// Runs the job and ends the machine.
pub fn main() -> ! {
    let _held = held::guests();
    let inside = nested::start(&read_notes());
    if inside.is_some()
        && let Err(error) = nested::receive()
    {
        eprintln!("lab: cannot receive the files of the run: {error}");
        // The kernel panics, as it does if the loader fails.
        std::process::exit(1);
    }
    let notes = read_notes();
    let job = read_job();
    let depth = job.as_ref().map_or(1, |job| job.depth);
    if let Err(error) = control::open(depth, obey) {
        eprintln!("lab: cannot open the control port: {error}");
        control::end_machine(127);
    }
    let mut report = match job.and_then(|job| run_job(&job, inside, &notes)) {
        Ok(report) => report,
        Err(error) => ProgramEnding::Failed(format!("L{depth}: {error}")).into(),
    };
    let notes = notes.into_iter().map(|note| format!("L{depth}: {note}"));
    report.notes.splice(..0, notes);
    let code = report.ending.exit_code();
    let message = InitMessage::Report(report);
    if let Err(error) = control::send(&message).and_then(|()| control::wait_for_leave()) {
        // The console is the only other way to the host.
        eprintln!("lab: cannot report {message:?}: {error}");
    }
    control::end_machine(code);
}

fn read_job() -> io::Result<InitJob> {
    let read = |error| io::Error::other(format!("cannot read {JOB_FILE}: {error}"));
    Ok(serde_json::from_slice(&fs::read(JOB_FILE).map_err(read)?)?)
}

/// Reads the notes about what the loader could not mount or load.
fn read_notes() -> Vec<String> {
    // Without notes there is no file.
    let text = fs::read_to_string(NOTES_FILE).unwrap_or_default();
    text.lines().filter_map(note).collect()
}

/// Makes a note for people from a line like `load 002-kvm_amd.ko 95`.
fn note(line: &str) -> Option<String> {
    let (rest, number) = line.rsplit_once(' ')?;
    let (verb, what) = rest.split_once(' ')?;
    let error = io::Error::from_raw_os_error(number.parse().ok()?);
    Some(format!("cannot {verb} {what}: {error}"))
}

/// Says why a module is not loaded, by the loader's note about its file.
fn not_loaded(name: &str, notes: &[String]) -> String {
    let file = format!("-{name}.ko");
    let said = notes.iter().find(|note| note.contains(&file));
    let said = said.map_or("it is not in the archive", String::as_str);
    format!("the module {name} is not loaded: {said}")
}

/// Runs the job, in the Linux inside if there is one. `notes` are about modules.
fn run_job(
    job: &InitJob,
    inside: Option<io::Result<StartedLinux>>,
    notes: &[String],
) -> io::Result<RunReport> {
    for folder in ["/etc", "/tmp", "/root", "/run", "/var", OUT_FOLDER] {
        fs::create_dir_all(folder)?;
    }
    rustix::system::sethostname(NAME.as_bytes())?;
    for (path, text) in NAMES {
        if !Path::new(path).exists() {
            fs::write(path, text)?;
        }
    }
    let is_missing = |name: &&String| !Path::new("/sys/module").join(name).exists();
    if let Some(name) = job.required.iter().find(is_missing) {
        return Err(io::Error::other(not_loaded(name, notes)));
    }
    let refused = parameters::refused(&job.kvm_parameters, Path::new("/sys/module"));
    let mut report = match inside {
        Some(inside) => inside?.run(job)?,
        None if job.check => run_check()?,
        None => run_program(job)?,
    };
    let refused = refused.iter().map(|what| format!("L{}: {what}", job.depth));
    report.notes.splice(..0, refused);
    if complaints::may_be() {
        let said = complaints::find()?;
        if !said.is_empty() {
            let said = said.join("\n");
            report.ending =
                ProgramEnding::Failed(format!("L{}: the kernel reports:\n{said}", job.depth));
        }
    }
    Ok(report)
}

/// Runs one guest. To the host, it looks like the start of a program.
fn run_check() -> io::Result<RunReport> {
    control::send(&InitMessage::Started)?;
    check::run()?;
    Ok(ProgramEnding::Exited(0).into())
}

/// Runs the program, and sends the files that it left.
fn run_program(job: &InitJob) -> io::Result<RunReport> {
    devices::prepare(&job.devices)?;
    let (ending, [stdout, stderr]) = program::run(job)?;
    let mut report = RunReport::from(ending);
    report.sent = [stdout, stderr, 0];
    if job.files {
        match control::open_port(port::FILES)
            .and_then(|port| send_folder(Path::new(OUT_FOLDER), port))
        {
            Ok(length) => report.sent[2] = length,
            Err(error) => report
                .notes
                .push(format!("cannot send {OUT_FOLDER}: {error}")),
        }
    }
    Ok(report)
}

/// Writes the archive of `folder` to `port` and returns its length in bytes.
fn send_folder(folder: &Path, port: impl Write) -> io::Result<u64> {
    let mut archive = tar::Builder::new(CountingReader {
        inner: port,
        written: 0,
    });
    archive.follow_symlinks(false);
    if folder.is_dir() {
        archive.append_dir_all(".", folder)?;
    }
    Ok(archive.into_inner()?.written)
}

struct CountingReader<W> {
    inner: W,
    written: u64,
}

impl<W: Write> Write for CountingReader<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = self.inner.write(bytes)?;
        self.written += length as u64;
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_names_what_failed_and_the_error() {
        let text = note("load 002-kvm_amd.ko 95").unwrap();
        assert!(text.starts_with("cannot load 002-kvm_amd.ko: Op"), "{text}");
        assert_eq!(note("load"), None);
    }

    #[test]
    fn the_note_about_a_module_is_that_of_its_own_file() {
        let notes = ["load 007-kvm_intel.ko 2", "load 006-kvm.ko 22"];
        let notes = notes.map(|line| note(line).unwrap());
        for (name, own) in [("kvm", &notes[1]), ("kvm_intel", &notes[0])] {
            let expected = format!("the module {name} is not loaded: {own}");
            assert_eq!(not_loaded(name, &notes), expected);
        }
        let absent = "the module kvm_amd is not loaded: it is not in the archive";
        assert_eq!(not_loaded("kvm_amd", &notes), absent);
    }

    #[test]
    fn what_is_counted_is_what_was_sent() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), "content").unwrap();
        std::os::unix::fs::symlink("/nowhere", folder.path().join("link")).unwrap();
        let mut sent = Vec::new();
        let count = send_folder(folder.path(), &mut sent).unwrap();
        assert_eq!(count, sent.len() as u64);
        let mut archive = tar::Archive::new(sent.as_slice());
        let names: Vec<_> = archive
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap().path().unwrap().into_owned())
            .collect();
        assert!(
            names.contains(&"a".into()) && names.contains(&"link".into()),
            "{names:?}"
        );
    }
}
