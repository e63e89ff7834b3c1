//! Finds VMs from outside: processes with a descriptor of a VM and of a vCPU that may run it.
//!
//! `/proc/PID/fd` shows `anon_inode:kvm-vm`, and `/proc/PID/fdinfo` the number of each eventfd, which the kernel's
//! structures contain as well. Nothing is opened in a VMM, and no VMM is stopped. Text that a VMM chooses, such as its
//! name and arguments, is shortened here, and control characters are removed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::Path;
use std::{fs, io};

use crate::guest_name;

/// The maximum length of a name that is kept: that of a file's name, because libvirt names files after VMs.
const NAME: usize = 255;
const VM: &str = "anon_inode:kvm-vm";
const VCPU: &str = "anon_inode:kvm-vcpu:";
/// The maximum number of vCPUs of a process that are sampled.
const VCPUS: usize = 1 << 12;
const EVENTFD: &str = "anon_inode:[eventfd]";

/// A process that has a VM with a vCPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// When the process started, in clock ticks since the host's boot. Together with its number, this identifies the
    /// process.
    pub started: u64,
    /// The VMM's short name, from its program. `None` if the process ended before it could be read.
    pub vmm: Option<String>,
    /// The VM's name in the VMM's arguments.
    pub name: Option<String>,
    /// The descriptors of eventfds, by the eventfd's number.
    pub eventfds: BTreeMap<u32, u32>,
    /// Whether the process has ended since the previous reading.
    pub has_ended: bool,
}

/// A process that holds an eventfd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The process's number.
    pub pid: u32,
    /// The process's name, which it may have chosen.
    pub name: String,
}

/// All visible processes with VMs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// The processes, by number.
    pub processes: BTreeMap<u32, Process>,
    /// The number of processes whose open files this process may not see.
    pub unreadable: usize,
}

/// Scans all processes, or only one.
pub fn scan(proc: &Path, only: Option<u32>) -> io::Result<Scan> {
    let mut scan = Scan::default();
    for entry in fs::read_dir(proc)? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if only.is_some_and(|only| only != pid) {
            continue;
        }
        match process(&proc.join(&name)) {
            Ok(found) => scan.processes.extend(found.map(|process| (pid, process))),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => scan.unreadable += 1,
            // The process has ended.
            Err(_) => {}
        }
    }
    Ok(scan)
}

/// The processes that hold each of these eventfds, by the eventfd's number. Unreadable processes are left out.
pub(crate) fn holders(proc: &Path, ids: &BTreeSet<u32>) -> BTreeMap<u32, Vec<Holder>> {
    let mut holders: BTreeMap<u32, Vec<Holder>> = BTreeMap::new();
    for entry in fs::read_dir(proc).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let Ok((_, fds)) = descriptors(&entry.path()) else {
            continue;
        };
        for id in eventfds(&entry.path(), &fds).keys() {
            if ids.contains(id) {
                let name = name_of_thread(proc, pid).unwrap_or_default();
                holders.entry(*id).or_default().push(Holder { pid, name });
            }
        }
    }
    holders
}

/// Returns whether a process has a VM with a vCPU, and its descriptors of eventfds.
fn descriptors(folder: &Path) -> io::Result<(bool, Vec<OsString>)> {
    let (mut has_vm, mut has_vcpu, mut eventfds) = (false, false, Vec::new());
    for entry in fs::read_dir(folder.join("fd"))? {
        let entry = entry?;
        // The descriptor may have been closed meanwhile.
        let Ok(target) = fs::read_link(entry.path()) else {
            continue;
        };
        has_vm |= target.as_os_str() == VM;
        has_vcpu |= target.to_str().is_some_and(|name| name.starts_with(VCPU));
        if target.as_os_str() == EVENTFD {
            eventfds.push(entry.file_name());
        }
    }
    Ok((has_vm && has_vcpu, eventfds))
}

/// The numbers of eventfds, each with its lowest descriptor.
fn eventfds(folder: &Path, fds: &[OsString]) -> BTreeMap<u32, u32> {
    let mut eventfds = BTreeMap::new();
    for fd in fds {
        let text = fs::read_to_string(folder.join("fdinfo").join(fd)).unwrap_or_default();
        let id = text
            .lines()
            .find_map(|line| line.strip_prefix("eventfd-id:"));
        let id = id.and_then(|id| id.trim().parse().ok());
        let fd: Option<u32> = fd.to_str().and_then(|fd| fd.parse().ok());
        if let (Some(id), Some(fd)) = (id, fd) {
            let known = eventfds.entry(id).or_insert(fd);
            *known = fd.min(*known);
        }
    }
    eventfds
}

/// Reads a process; `None` if it has no VM.
fn process(folder: &Path) -> io::Result<Option<Process>> {
    let (has_vm, fds) = descriptors(folder)?;
    if !has_vm {
        return Ok(None);
    }
    let mut process = Process {
        started: started_in(&fs::read_to_string(folder.join("stat"))?).unwrap_or_default(),
        eventfds: eventfds(folder, &fds),
        ..Process::default()
    };
    let arguments = fs::read(folder.join("cmdline")).unwrap_or_default();
    let arguments = String::from_utf8_lossy(&arguments);
    let arguments: Vec<&str> = arguments.split('\0').collect();
    // A process that is ending has no program, and no longer runs a VM.
    let program = fs::read_link(folder.join("exe"))?;
    let program = program.file_name().unwrap_or_default().to_string_lossy();
    let vmm = vmm(&program, &arguments);
    let name = guest_name::of(&vmm, &arguments).map(|name| clean(&name));
    process.name = name.filter(|name| !name.is_empty());
    process.vmm = Some(vmm);
    Ok(Some(process))
}

/// The process that a thread belongs to.
pub fn of_thread(proc: &Path, thread: u32) -> Option<u32> {
    let status = fs::read_to_string(proc.join(thread.to_string()).join("status")).ok()?;
    let process = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    process.trim().parse().ok()
}

/// The threads of a process.
pub fn threads(proc: &Path, pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(proc.join(pid.to_string()).join("task"));
    let tasks = tasks.into_iter().flatten().flatten();
    let ids = tasks.filter_map(|task| task.file_name().to_str()?.parse().ok());
    ids.collect()
}

/// The addresses of the `kvm_run` pages that a process maps, one for each vCPU.
pub(crate) fn vcpu_pages(proc: &Path, pid: u32) -> Vec<u64> {
    let maps = fs::read_to_string(proc.join(pid.to_string()).join("maps")).unwrap_or_default();
    let page = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (from, _) = words.next()?.split_once('-')?;
        // After the rights: the start in the file, the device, the inode, and the name.
        let is_start = words.nth(1)?.bytes().all(|digit| digit == b'0');
        let is_vcpu = words.nth(2)?.starts_with(VCPU);
        u64::from_str_radix(from, 16)
            .ok()
            .filter(|_| is_start && is_vcpu)
    };
    maps.lines().filter_map(page).take(VCPUS).collect()
}

/// Whether a process is ending: its first thread is dead, and another thread is still alive.
pub fn is_ending(proc: &Path, pid: u32) -> bool {
    let lives = |thread: &u32| {
        let stat = fs::read_to_string(proc.join(thread.to_string()).join("stat"));
        stat.is_ok_and(|stat| !matches!(fields(&stat).next(), None | Some("Z" | "X")))
    };
    !lives(&pid) && threads(proc, pid).iter().any(lives)
}

/// The vhost thread in a process, if there is exactly one. Linux names it after the process.
pub(crate) fn vhost_thread(proc: &Path, pid: u32) -> Option<u32> {
    let name = format!("vhost-{pid}");
    let is_named = |thread: &u32| name_of_thread(proc, *thread).as_deref() == Some(&*name);
    let mut found = threads(proc, pid).into_iter().filter(is_named);
    let first = found.next();
    first.filter(|_| found.next().is_none())
}

/// The name of a thread, which it may have chosen.
pub fn name_of_thread(proc: &Path, thread: u32) -> Option<String> {
    let name = fs::read_to_string(proc.join(thread.to_string()).join("comm")).ok()?;
    Some(clean(name.trim_end()))
}

/// The CPU time of a thread in clock ticks.
pub fn cpu_time(proc: &Path, thread: u32) -> Option<u64> {
    let stat = fs::read_to_string(proc.join(thread.to_string()).join("stat")).ok()?;
    let field = |index| fields(&stat).nth(index)?.parse::<u64>().ok();
    Some(field(11)? + field(12)?)
}

/// When a process or a thread started, in clock ticks since the host's boot.
fn started_in(stat: &str) -> Option<u64> {
    fields(stat).nth(19)?.parse().ok()
}

/// The fields of `/proc/PID/stat` from the third, the state: the second is a name that may contain spaces and brackets.
fn fields(stat: &str) -> impl Iterator<Item = &str> {
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    rest.split_ascii_whitespace()
}

fn vmm(program: &str, arguments: &[&str]) -> String {
    // A program started through the dynamic loader is among the loader's arguments.
    let is_loader = program.starts_with("ld-");
    let named = arguments
        .iter()
        .skip(1)
        .find(|word| word.contains('/') && !word.contains(':'));
    let program = match named.filter(|_| is_loader) {
        Some(path) => path.rsplit('/').next().unwrap_or(path),
        None => program.trim_end_matches(" (deleted)"),
    };
    match program {
        _ if program.starts_with("qemu") => "qemu".to_owned(),
        other => clean(other),
    }
}

pub(crate) fn clean(text: &str) -> String {
    let letters = text.chars().filter(|letter| !letter.is_control());
    letters.take(NAME).collect()
}

#[cfg(test)]
#[path = "process_test.rs"]
mod tests;
