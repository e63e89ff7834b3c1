//! Writes what a run gives a Linux: an archive with the program and all files that it needs, the job, and `vmbell`
//! itself. The files that do not depend on the run are in the [`initramfs`].

use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use super::board::CpuVendor;
use super::boot::{Settings, TimeMode};
use super::device::PluggedDevice;
use super::initramfs::{Archive, ElfFacts, LibrarySearch, not_utf8};
use super::job::{
    InitJob, JOB_FILE, JobDevice, NESTED_INITRAMFS_FILE, NESTED_KERNEL_FILE, NESTED_RUN_FILE,
    Nested, NestedQemu,
};
use super::kernel::{KernelModule, ModuleTree};
use super::kvm::{IOEVENTFD, SHARED_MODULE};
use super::lab::Lab;
use super::{first, prepare};
use crate::error::{LabError, cannot, failed};
use loader::window::{
    BUSYBOX_FILE, CHANNEL_MODULE_FOLDER, EXTRA_MODULE_FOLDER, INIT_FILE, LOADER_FILE, NESTED_FILE,
};
use serde::Serialize;

/// The shell of a Linux whose run brings no shell: a link to busybox.
const SHELL: &str = "/bin/sh";

/// A program of the host to run in L1.
#[derive(Clone, Debug, Default)]
pub struct LabTask {
    /// A path, or a name to search on PATH.
    pub program: OsString,
    /// The program's arguments.
    pub arguments: Vec<OsString>,
    /// The program's environment.
    pub environment: Vec<(OsString, OsString)>,
    /// The program's working directory. It is empty in L1 unless `with` adds files.
    pub directory: PathBuf,
    /// Files and folders of the host, each with its path in L1.
    pub with: Vec<(PathBuf, PathBuf)>,
    /// Scripts that exist only in L1, each as path and text.
    pub scripts: Vec<(PathBuf, String)>,
    /// Modules to load in addition to the board's: names of the kernel's modules, or paths of module files.
    pub modules: Vec<String>,
    /// Whether the files of `/out` are sent to the host.
    pub out: bool,
    /// Whether the program reads this process's standard input.
    pub stdin: bool,
    /// Whether the program runs in a separate cgroup, whose memory the kernel counts.
    pub cgroup: bool,
}

/// The drivers of the channels between a Linux and the one inside it: the inner and the outer end.
const INNER_CHANNEL: &str = "vmw_vsock_virtio_transport";
const OUTER_CHANNEL: &str = "vhost_vsock";

/// What needs QEMU there.
const NESTED_QEMU: &str = "--vmm qemu";

/// A Linux that another one starts inside itself.
#[derive(Debug)]
pub struct InnerLinux {
    /// The machine.
    pub nested: Nested,
    /// The initramfs of this Linux.
    pub initramfs: Vec<u8>,
}

/// Writes the initramfs of a Linux, with the files that do not depend on the run: the kernel's modules, the first
/// program and busybox. With one Linux inside another, it also has `vmbell` and the channel drivers.
pub fn initramfs(
    lab: &Lab,
    depth: u32,
    levels: u32,
    inside: Option<&InnerLinux>,
    mut output: impl Write,
) -> Result<(), LabError> {
    let base = &lab.kernel.base;
    let mut file = fs::File::open(base).map_err(cannot("read", base))?;
    std::io::copy(&mut file, &mut output).map_err(cannot("read", base))?;
    let mut archive = Archive::new(output);
    archive.file(Path::new(LOADER_FILE), 0o755, &first::read(&lab.init)?)?;
    if let Some(shell) = &lab.shell {
        archive.host_path_at(shell, Path::new(BUSYBOX_FILE))?;
    }
    if levels > 1 {
        add_init(&mut archive, lab)?;
        let modules = channel_modules(lab, depth, levels)?;
        prepare::add_modules(&mut archive, CHANNEL_MODULE_FOLDER, &modules)?;
    }
    if let Some(inside) = inside {
        let nested = json(NESTED_FILE, &inside.nested)?;
        archive.file(Path::new(NESTED_FILE), 0o644, &nested)?;
        archive.host_path_at(&lab.kernel.image, Path::new(NESTED_KERNEL_FILE))?;
        archive.file(Path::new(NESTED_INITRAMFS_FILE), 0o644, &inside.initramfs)?;
        if inside.nested.qemu.is_some() {
            let search = LibrarySearch::host(lab.board.arch.triplet);
            for path in lab.emulator.qemu(NESTED_QEMU)?.files() {
                add_with(&mut archive, lab.board.arch.name, &path, &path, &search)?;
            }
        }
    }
    end(archive)
}

/// Returns the drivers that only the initramfs of the Linux of this depth needs, in load order.
pub fn channel_modules(lab: &Lab, depth: u32, levels: u32) -> Result<Vec<KernelModule>, LabError> {
    let mut modules = Vec::new();
    // The drivers may be built in. If they are missing, the kernel in L1 says so.
    if let Some(folder) = &lab.kernel.modules {
        let inner = (depth > 1).then_some(INNER_CHANNEL);
        let outer = (depth < levels).then_some(OUTER_CHANNEL);
        let names: Vec<&str> = inner.into_iter().chain(outer).collect();
        modules = ModuleTree::open(folder, &lab.kernel.title)?.load_order(&names)?;
    }
    if let Some(path) = lab.ioeventfd.as_ref().filter(|_| depth < levels) {
        // The VMM of the Linux inside needs this module.
        modules.push(KernelModule::read(path)?);
    }
    Ok(modules)
}

fn end<W: Write>(archive: Archive<W>) -> Result<(), LabError> {
    archive
        .finish()?
        .flush()
        .map_err(cannot("write", "the archive"))?;
    Ok(())
}

/// Writes the archive of the Linux that runs the program, but at most `room` bytes. Returns the full length in bytes.
pub fn write(
    lab: &Lab,
    task: &LabTask,
    settings: &Settings,
    room: u64,
    output: impl Write,
) -> Result<u64, LabError> {
    let (board, init) = (&lab.board, &lab.init);
    let arch = board.arch.name;
    let search = LibrarySearch::host(board.arch.triplet);
    let mut archive = Archive::within(output, room);
    if settings.depth == 1 {
        add_init(&mut archive, lab)?;
    }
    let program = match &lab.shell {
        Some(_) if !board.is_native() && is_shell(&task.program) => PathBuf::from(SHELL),
        _ => {
            let program = find_program(&task.program)?;
            add_program(&mut archive, arch, &program, init, &search)?;
            program
        }
    };
    let conf = Path::new("/etc/ld.so.cache");
    if conf.exists() && board.is_native() {
        // Libraries keep their paths, so the host's loader cache is also right in L1.
        archive.host_path(conf)?;
    }
    for (path, text) in &task.scripts {
        archive.file(path, 0o755, text.as_bytes())?;
    }
    for (host, path) in &task.with {
        add_with(&mut archive, arch, host, path, &search)?;
    }
    let modules = extra_modules(lab, task, &settings.devices)?;
    if !modules.is_empty() {
        prepare::add_modules(&mut archive, EXTRA_MODULE_FOLDER, &modules)?;
    }
    if lab.shell.is_some() {
        // If there is a shell of the host, it was added earlier and takes precedence.
        archive.link(Path::new(SHELL), Path::new(BUSYBOX_FILE))?;
    }
    finish(archive, &job(lab, task, settings, settings.depth, program)?)
}

/// Writes the archive of the innermost Linux of a machine that only has to run a guest.
pub fn write_check(lab: &Lab, depth: u32, output: impl Write) -> Result<u64, LabError> {
    let mut archive = Archive::new(output);
    if depth == 1 {
        add_init(&mut archive, lab)?;
    }
    let job = InitJob {
        check: true,
        depth,
        ..InitJob::default()
    };
    finish(archive, &job)
}

/// Writes the archive of a Linux with another one inside, to which it passes `run`. The innermost runs `task`.
pub fn write_outer(
    lab: &Lab,
    task: &LabTask,
    settings: &Settings,
    depth: u32,
    run: &[u8],
    output: impl Write,
) -> Result<u64, LabError> {
    let mut archive = Archive::new(output);
    archive.file(Path::new(NESTED_RUN_FILE), 0o644, run)?;
    let task = LabTask {
        stdin: task.stdin,
        ..LabTask::default()
    };
    let settings = Settings {
        devices: Vec::new(),
        ..settings.clone()
    };
    let mut job = job(lab, &task, &settings, depth, PathBuf::from(INIT_FILE))?;
    job.exits = settings.exits && depth == 1;
    job.marks = settings.marks.filter(|_| depth == 1);
    finish(archive, &job)
}

/// Adds the job and ends the archive. Returns the length of its entries in bytes.
fn finish<W: Write>(mut archive: Archive<W>, job: &InitJob) -> Result<u64, LabError> {
    archive.file(Path::new(JOB_FILE), 0o644, &json(JOB_FILE, job)?)?;
    let length = archive.length();
    end(archive)?;
    Ok(length)
}

fn json(path: &str, document: &impl Serialize) -> Result<Vec<u8>, LabError> {
    serde_json::to_vec(document).map_err(cannot("write", path))
}

/// Returns the modules of this run in load order, each once.
fn extra_modules(
    lab: &Lab,
    task: &LabTask,
    devices: &[PluggedDevice],
) -> Result<Vec<KernelModule>, LabError> {
    let (board, kernel) = (&lab.board, &lab.kernel);
    let mut modules: Vec<KernelModule> = Vec::new();
    let mut add = |found: Vec<KernelModule>| {
        for module in found {
            if !modules.iter().any(|other| other.name == module.name) {
                modules.push(module);
            }
        }
    };
    // A kernel without modules may have VFIO built in. If VFIO is missing, L1's init says so.
    if let Some(folder) = &kernel.modules {
        for PluggedDevice { device, .. } in devices {
            let names = [device.modules, board.iommu.modules].concat();
            let found = ModuleTree::open(folder, &kernel.title)
                .and_then(|tree| tree.load_order(&names))
                .map_err(|error| {
                    let device = device.name;
                    failed!("this kernel cannot assign {device} to a guest").because(error)
                })?;
            add(found);
        }
    }
    if devices.iter().any(|plugged| plugged.device.built_driver) {
        for path in &lab.drivers {
            add(vec![KernelModule::read(path)?]);
        }
    }
    if let Some(path) = &lab.ioeventfd {
        add(vec![KernelModule::read(path)?]);
    }
    for name in &task.modules {
        if name.contains('/') {
            add(vec![KernelModule::read(Path::new(name))?]);
            continue;
        }
        let folder = kernel.modules.clone().unwrap_or_default();
        add(ModuleTree::open(&folder, &kernel.title)?.load_order(&[name])?);
    }
    Ok(modules)
}

/// Adds `vmbell` as process 1, without the sections that only debuggers read.
fn add_init<W: Write>(archive: &mut Archive<W>, lab: &Lab) -> Result<(), LabError> {
    let (arch, vmbell) = (lab.board.arch, &lab.init);
    archive.libraries(vmbell, arch.name, &LibrarySearch::host(arch.triplet))?;
    let loaded = ElfFacts::read(vmbell, arch.name)?.loaded;
    let mut bytes = Vec::with_capacity(loaded);
    fs::File::open(vmbell)
        .and_then(|file| file.take(loaded as u64).read_to_end(&mut bytes))
        .map_err(cannot("read", vmbell))?;
    // The section table was cut off, so the header must not point to it: e_shoff, e_shnum, e_shstrndx.
    bytes[0x28..0x30].fill(0);
    bytes[0x3c..0x40].fill(0);
    archive.file(Path::new(INIT_FILE), 0o755, &bytes)
}

/// Adds a file or folder of the host. The libraries of programs and shared objects in it are added as well, because the
/// task's program may run or open them.
fn add_with<W: Write>(
    archive: &mut Archive<W>,
    arch: &'static str,
    host: &Path,
    path: &Path,
    search: &LibrarySearch,
) -> Result<(), LabError> {
    let facts = host
        .is_file()
        .then(|| ElfFacts::read(host, arch).ok())
        .flatten();
    if facts.is_some_and(|facts| facts.arch == arch && facts.interpreter.is_some()) {
        archive.libraries(host, arch, search)?;
    } else {
        // The user may have named a symbolic link.
        let host = fs::canonicalize(host).map_err(cannot("find", host))?;
        archive.libraries_of_all(&host, arch, search)?;
    }
    match host == path {
        true => archive.host_path(path),
        false => archive.host_path_at(host, path),
    }
}

/// Adds the program with its libraries.
fn add_program<W: Write>(
    archive: &mut Archive<W>,
    arch: &'static str,
    program: &Path,
    init: &Path,
    search: &LibrarySearch,
) -> Result<(), LabError> {
    if is_same_file(program, init) {
        // The archive already has this file, as process 1.
        return archive.link(program, Path::new(INIT_FILE));
    }
    archive.libraries(program, arch, search)?;
    archive.host_path(program)
}

/// Returns whether a task that names this program asks for a shell.
fn is_shell(program: &OsString) -> bool {
    program == "sh" || program == SHELL
}

fn job(
    lab: &Lab,
    task: &LabTask,
    settings: &Settings,
    depth: u32,
    program: PathBuf,
) -> Result<InitJob, LabError> {
    Ok(InitJob {
        program,
        arguments: std::iter::once(&task.program)
            .chain(&task.arguments)
            .map(text)
            .collect::<Result<_, LabError>>()?,
        environment: task
            .environment
            .iter()
            .map(|(name, value)| Ok((text(name)?, text(value)?)))
            .collect::<Result<_, LabError>>()?,
        directory: task.directory.clone(),
        stdin: task.stdin,
        files: task.out,
        cgroup: task.cgroup,
        deterministic: matches!(settings.mode, TimeMode::Deterministic { .. }),
        phase: settings.phase(),
        devices: settings.devices.iter().map(job_device).collect(),
        required: required(
            lab.ioeventfd.is_some(),
            lab.board.vendor.filter(|_| !lab.kvm_parameters.is_empty()),
        ),
        kvm_parameters: lab.kvm_parameters.clone(),
        depth,
        check: false,
        exits: false,
        marks: None,
    })
}

/// Returns the modules without which the run would not be what the user asked for, in the order in which they load.
/// `with_parameters` is the CPU's vendor if the user sets parameters of KVM's modules.
fn required(has_ioeventfd: bool, with_parameters: Option<CpuVendor>) -> Vec<String> {
    // A module does not load with a wrong value of a parameter, and the vendor's module does not load without `kvm`.
    let kvms = with_parameters.map(|vendor| [SHARED_MODULE, vendor.module()]);
    let ours = has_ioeventfd.then_some(IOEVENTFD);
    let names = kvms.into_iter().flatten().chain(ours);
    names.map(str::to_owned).collect()
}

/// Returns the command with which a Linux starts the lab's QEMU. That Linux has QEMU's files at the host's paths.
pub fn nested_qemu(lab: &Lab) -> Result<NestedQemu, LabError> {
    let qemu = lab.emulator.qemu(NESTED_QEMU)?;
    let words = qemu.words();
    let words: Result<_, LabError> = words.iter().map(text).collect();
    let variable = |(name, value): (&str, PathBuf)| Ok((name.to_owned(), text(&value.into())?));
    let environment = qemu.environment().into_iter().map(variable);
    Ok(NestedQemu {
        words: words?,
        environment: environment.collect::<Result<_, LabError>>()?,
    })
}

/// Converts a word of a command line to UTF-8, which JSON requires.
fn text(value: &OsString) -> Result<String, LabError> {
    let text = value.to_str().map(str::to_owned);
    text.ok_or_else(|| not_utf8(Path::new(value)))
}

fn job_device(plugged: &PluggedDevice) -> JobDevice {
    JobDevice {
        name: plugged.device.name.to_owned(),
        bus: plugged.device.bus.name().to_owned(),
        address: plugged.device.address.to_owned(),
        interface: plugged.device.interface.map(str::to_owned),
        driver: plugged.driver_name().map(str::to_owned),
    }
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| fs::canonicalize(path).ok();
    real(one).is_some_and(|one| Some(one) == real(other))
}

/// Finds a program as a shell does: a name without a slash is searched on PATH.
fn find_program(name: &OsString) -> Result<PathBuf, LabError> {
    let path = Path::new(name);
    if path.components().count() > 1 || path.is_absolute() {
        return std::path::absolute(path).map_err(cannot("find", path));
    }
    which::which(path).map_err(|_| failed!("no program {} on PATH", name.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_with_parameters_requires_kvm_before_the_vendors_module() {
        assert!(required(false, None).is_empty());
        assert_eq!(required(true, None), ["kvm_ioeventfd"]);
        let all = required(true, Some(CpuVendor::Intel));
        assert_eq!(all, ["kvm", "kvm_intel", "kvm_ioeventfd"]);
    }
}
