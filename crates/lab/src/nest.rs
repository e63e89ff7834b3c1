//! Makes the files of several Linuxes inside each other. Each initramfs has what no run changes, and contains the next
//! initramfs. The files of a run come through L1's window, nested the same way: the innermost part has the program.
//!
//! Each Linux has as much memory as the next one, plus room for the next one's files and for itself.

use std::cell::OnceCell;
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::time::{SystemTime, UNIX_EPOCH};

use loader::window::{ARCHIVE, Header};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::rand::GetRandomFlags;
use sha2::{Digest as _, Sha256};

use super::boot::{InnerVmm, Settings, TimeMode, WINDOW, kernel_parameters};
use super::files::temporary;
use super::job::Nested;
use super::lab::Lab;
use super::payload::{self, InnerLinux, LabTask};
use crate::error::{LabError, failed};

/// Memory for a Linux itself and for the VMM of the next one.
const OWN: u64 = 256 << 20;
/// Memory that a kernel takes at its start, not counting its page table, which takes 1/[`PAGES`] of the memory.
const KERNEL: u64 = 44 << 20;
const PAGES: u64 = 50;
/// With more memory than this, a kernel also allocates buffers for devices that cannot reach all of it.
const REACHED: u64 = 2 << 30;
const BUFFERS: u64 = 64 << 20;
/// The maximum memory that a guest of `vmbell run` can have.
const MOST: u64 = 3 << 30;

/// The memory of a machine with another Linux inside is a multiple of this, so similar programs share a saved state.
const UNIT: u64 = 128 << 20;

/// L1's initramfs, written only if a machine is to boot.
#[derive(Debug)]
pub(crate) struct Initramfs<'a> {
    lab: &'a Lab,
    levels: u32,
    /// The Linux inside L1.
    pub inside: Option<InnerLinux>,
    file: OnceCell<File>,
}

impl<'a> Initramfs<'a> {
    fn new(lab: &'a Lab, levels: u32, inside: Option<InnerLinux>) -> Self {
        Self {
            lab,
            levels,
            inside,
            file: OnceCell::new(),
        }
    }

    /// Returns the file, which is written at the first call.
    pub fn file(&self) -> Result<&File, LabError> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        let mut file = tempfile::tempfile().map_err(temporary)?;
        payload::initramfs(self.lab, 1, self.levels, self.inside.as_ref(), &mut file)?;
        Ok(self.file.get_or_init(|| file))
    }
}

/// What a run gives L1: the memory for its window. It contains an archive; the header is written later.
#[derive(Debug)]
pub(crate) struct RunWindow {
    /// Memory without a name, so that it disappears with this process.
    pub file: File,
    /// The archive's length in bytes.
    pub length: u64,
}

impl RunWindow {
    /// Writes the header, before L1 starts or continues.
    pub fn begin(&self, header: Header) -> Result<(), LabError> {
        let header = Header {
            length: self.length,
            ..header
        };
        let written = self.file.write_all_at(&header.to_bytes(), 0);
        written.map_err(temporary)
    }
}

/// Makes the files of all Linuxes inside each other: L1's initramfs and its window. The inner ones get `header`.
/// `settings.memory` is the innermost Linux's memory before the call, and L1's after it.
pub(crate) fn files<'a>(
    lab: &'a Lab,
    task: &LabTask,
    settings: &mut Settings,
    header: Header,
) -> Result<(Initramfs<'a>, RunWindow), LabError> {
    let levels = settings.depth;
    let mut inside: Option<InnerLinux> = None;
    let mut run: Option<Vec<u8>> = None;
    for depth in (1..=levels).rev() {
        let memory = settings.memory;
        let write = |output: &mut dyn Write, room| match &run {
            None => payload::write(lab, task, settings, room, output),
            Some(run) => payload::write_outer(lab, task, settings, depth, run, output),
        };
        if depth == 1 {
            let room = room(memory).min(WINDOW - ARCHIVE as u64);
            let window = window_of(|output| {
                let length = write(output, room)?;
                require_room(depth, length, memory)?;
                Ok(length)
            })?;
            return Ok((Initramfs::new(lab, levels, inside), window));
        }
        if settings.vmm == InnerVmm::Vmbell && memory > MOST {
            return Err(failed!(
                "L{depth} would need {} MiB of memory, and a guest of `vmbell run` has at most 3072",
                memory >> 20
            )
            .hint("use less --memory"));
        }
        let mut initramfs = Vec::new();
        payload::initramfs(lab, depth, levels, inside.as_ref(), &mut initramfs)?;
        let own = initramfs.len() as u64;
        let this_run = with_header(header, |output| {
            let length = write(output, room(memory).saturating_sub(own))?;
            require_room(depth, own + length, memory)
        })?;
        let length = own + this_run.len() as u64;
        inside = Some(InnerLinux {
            nested: Nested {
                depth: depth - 1,
                deterministic: matches!(settings.mode, TimeMode::Deterministic { .. }),
                memory,
                vcpus: settings.mode.cpus(),
                parameters: kernel_parameters(&lab.board, settings, &[lab.board.inner_parameters]),
                qemu: match settings.vmm {
                    InnerVmm::Vmbell => None,
                    InnerVmm::Qemu => Some(payload::nested_qemu(lab)?),
                },
                levels: levels + 1 - depth,
            },
            initramfs,
        });
        run = Some(this_run);
        // A kernel keeps its initramfs until it has unpacked the whole of it.
        settings.memory = (memory + 2 * length + OWN).next_multiple_of(UNIT);
    }
    unreachable!("a depth is at least 1")
}

/// Makes the window of a machine whose innermost Linux only has to run a guest.
pub(crate) fn check(lab: &Lab, settings: &Settings, header: Header) -> Result<RunWindow, LabError> {
    let mut run: Option<Vec<u8>> = None;
    for depth in (1..=settings.depth).rev() {
        let write = |output: &mut dyn Write| match &run {
            None => payload::write_check(lab, depth, output),
            Some(run) => {
                payload::write_outer(lab, &LabTask::default(), settings, depth, run, output)
            }
        };
        if depth == 1 {
            let window = window_of(write)?;
            window.begin(header)?;
            return Ok(window);
        }
        run = Some(with_header(header, |output| write(output).map(drop))?);
    }
    unreachable!("a depth is at least 1")
}

/// Returns what a Linux inside another one gets: a header, and the archive that `write` writes.
fn with_header(
    header: Header,
    write: impl FnOnce(&mut dyn Write) -> Result<(), LabError>,
) -> Result<Vec<u8>, LabError> {
    let mut run = vec![0; Header::SIZE];
    write(&mut run)?;
    let length = (run.len() - Header::SIZE) as u64;
    run[..Header::SIZE].copy_from_slice(&Header { length, ..header }.to_bytes());
    Ok(run)
}

/// Returns how many bytes of files fit into a Linux with this memory. Its root file system may take half of what the
/// kernel leaves, and files that come as an initramfs are in memory twice during the start.
fn room(memory: u64) -> u64 {
    let buffers = if memory > REACHED { BUFFERS } else { 0 };
    memory.saturating_sub(KERNEL + memory / PAGES + buffers) / 2
}

/// Returns an error if the files do not fit.
fn require_room(depth: u32, length: u64, memory: u64) -> Result<(), LabError> {
    if length > WINDOW - ARCHIVE as u64 {
        return Err(failed!(
            "the program and its files have {} MiB, and at most {} MiB go into the lab",
            length >> 20,
            WINDOW >> 20
        ));
    }
    if length <= room(memory) {
        return Ok(());
    }
    let mut enough = memory;
    while room(enough) < length {
        enough = (enough + 1).next_multiple_of(UNIT);
    }
    Err(failed!(
        "L{depth}: out of memory: its files need {} MiB, and {} MiB of its {} MiB are available for files",
        length >> 20,
        room(memory) >> 20,
        memory >> 20
    )
    .hint(format!("use --memory {}M or more", enough >> 20)))
}

/// Makes the header for a Linux. Where instructions are counted, the seed decides its content; otherwise it is random.
pub(crate) fn header(mode: TimeMode) -> Result<Header, LabError> {
    let header = Header {
        length: 0,
        clock: 0,
        fixed_addresses: false,
        counted: false,
        seed: [0; 32],
    };
    Ok(match mode {
        TimeMode::Functional { .. } => {
            let mut seed = [0; 32];
            rustix::rand::getrandom(&mut seed, GetRandomFlags::empty())
                .map_err(|error| temporary(error.into()))?;
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            let now = now.unwrap_or_default().as_nanos();
            Header {
                clock: u64::try_from(now).unwrap_or_default(),
                seed,
                ..header
            }
        }
        TimeMode::Deterministic { seed } => Header {
            fixed_addresses: seed.is_none(),
            counted: true,
            seed: Sha256::digest(seed.unwrap_or(1).to_le_bytes()).into(),
            ..header
        },
    })
}

/// Makes a window with the archive that `write` writes.
fn window_of(
    write: impl FnOnce(&mut dyn Write) -> Result<u64, LabError>,
) -> Result<RunWindow, LabError> {
    let file = empty_window()?;
    let mut output = BufWriter::with_capacity(1 << 20, &file);
    output
        .seek(SeekFrom::Start(ARCHIVE as u64))
        .map_err(temporary)?;
    write(&mut output)?;
    let end = output.stream_position().map_err(temporary)?;
    drop(output);
    let length = end - ARCHIVE as u64;
    Ok(RunWindow { file, length })
}

/// Makes an empty window.
pub(crate) fn empty_window() -> Result<File, LabError> {
    let file = memfd_create("vmbell-window", MemfdFlags::CLOEXEC)
        .map_err(|error| temporary(error.into()))?;
    let file = File::from(file);
    file.set_len(WINDOW).map_err(temporary)?;
    Ok(file)
}
