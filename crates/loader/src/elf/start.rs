//! What every run needs: the kernel's file systems, where programs expect them, and modules in the order of their
//! names.

use super::sys::{self, EEXIST};
use super::text::{Digits, Path};
use crate::window::NOTES_FILE;

/// Type, mount point and options. If the kernel lacks a file system, that is noted.
const MOUNTS: [(&str, &str, &str); 7] = [
    ("proc", "/proc", ""),
    ("sysfs", "/sys", ""),
    ("devtmpfs", "/dev", ""),
    ("tmpfs", "/dev/shm", "mode=1777"),
    ("devpts", "/dev/pts", "ptmxmode=0666"),
    ("tracefs", "/sys/kernel/tracing", ""),
    ("debugfs", "/sys/kernel/debug", ""),
];

const LINKS: [(&str, &str); 4] = [
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "fd/0"),
    ("/dev/stdout", "fd/1"),
    ("/dev/stderr", "fd/2"),
];

/// Mounts everything, and notes each failure.
pub fn mount_all() {
    for (kind, place, options) in MOUNTS {
        let folder = Path::of(&[place]);
        // This fails for mount points in sysfs and procfs: they exist already, or cannot be made.
        let _ = sys::make_folder(&folder, 0o755);
        if let Err(error) = sys::mount(&Path::of(&[kind]), &folder, &Path::of(&[options])) {
            note("mount", place, error);
        }
    }
}

/// Makes the links that programs expect in `/dev`, and starts the loopback interface, because tests use 127.0.0.1.
pub fn links() {
    for (link, target) in LINKS {
        let _ = sys::make_link(&Path::of(&[target]), &Path::of(&[link]));
    }
    // Sets IFF_UP; the kernel itself adds the address.
    if !sys::write_existing(&Path::of(&["/sys/class/net/lo/flags"]), b"0x1") {
        note("start", "lo", 0);
    }
}

/// Makes a link for each of busybox's commands, if there is a busybox.
pub fn commands(busybox: &str, folder: &str) {
    let program = Path::of(&[busybox]);
    let Some(fd) = sys::open(&program, sys::READ) else {
        return;
    };
    sys::close(fd);
    let folder = Path::of(&[folder]);
    let _ = sys::make_folder(&folder, 0o755);
    let words = ["busybox", "--install", "-s"].map(|word| Path::of(&[word]));
    let [name, install, symbolic] = &words;
    sys::run_program(&program, &[name, install, symbolic, &folder]);
}

/// Loads every module in `folder` in the order of the numbers that begin their names. Notes each that failed.
pub fn load_modules(folder: &str) {
    let mut entries = [0; 16 << 10];
    let Some(fd) = sys::open(&Path::of(&[folder]), sys::READ) else {
        return;
    };
    let mut length = 0;
    while let Some(rest) = entries.get_mut(length..) {
        match sys::list(fd, rest) {
            0 => break,
            more => length += more,
        }
    }
    sys::close(fd);
    let mut line = [0; 4096];
    let read = sys::read_file(&Path::of(&["/proc/cmdline"]), &mut line).unwrap_or(0);
    let line = core::str::from_utf8(&line[..read]).unwrap_or("");
    for index in 0.. {
        let Some(name) = numbered(&entries[..length], index) else {
            return;
        };
        load(folder, name, line);
    }
}

fn load(folder: &str, file: &str, line: &str) {
    let name = file.strip_suffix(".ko").unwrap_or(file);
    let name = name.split_once('-').map_or(name, |(_, name)| name);
    let mut options = Path::of(&[]);
    // The kernel leaves parameters of the form `module.option` to the program that loads the module.
    for word in line.split_ascii_whitespace() {
        if let Some((module, option)) = word.split_once('.')
            && is_same(module, name)
        {
            options.push(option.as_bytes());
            options.push(b" ");
        }
    }
    let Some(fd) = sys::open(&Path::of(&[folder, "/", file]), sys::READ) else {
        return;
    };
    match sys::load_module(fd, &options) {
        Err(error) if error != EEXIST => note("load", file, error),
        _ => {}
    }
    sys::close(fd);
}

/// Returns whether two names of a module are the same: a hyphen counts as an underscore.
fn is_same(one: &str, other: &str) -> bool {
    let plain = |byte: u8| if byte == b'-' { b'_' } else { byte };
    one.bytes().map(plain).eq(other.bytes().map(plain))
}

/// Returns the name in a folder that begins with this number.
fn numbered(entries: &[u8], index: u32) -> Option<&str> {
    /// The bytes of `struct linux_dirent64` before the name: two words, the entry's length, and a type.
    const NAME: usize = 19;
    let mut rest = entries;
    while let Some(length) = rest.get(16..18) {
        let length = usize::from(u16::from_ne_bytes([length[0], length[1]]));
        let name = rest.get(NAME..length)?.split(|byte| *byte == 0).next();
        let name = name.and_then(|name| core::str::from_utf8(name).ok());
        if let Some((number, _)) = name.and_then(|name| name.split_once('-'))
            && number.parse() == Ok(index)
        {
            return name;
        }
        rest = rest.get(length..)?;
    }
    None
}

/// Adds a line to the notes, which the next program reports.
fn note(verb: &str, what: &str, error: u32) {
    let number = Digits::of(error);
    sys::append_line(
        &Path::of(&[NOTES_FILE]),
        &[verb, " ", what, " ", number.text()],
    );
}
