//! The file trees of several Linuxes inside each other: that of the innermost has the program, and each other one has the kernel
//! and the file tree of the next.
//!
//! Every Linux has as much memory as the next one, and in addition what it needs for that one's files and for itself.

use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;

use loader::window::{ARCHIVE, Header};
use rustix::fs::{MemfdFlags, memfd_create};

use super::boot::{Settings, Vmm, WINDOW, kernel_parameters};
use super::job::Nested;
use super::run::temporary;
use super::{Lab, LabError, Task, payload};

/// What a Linux needs for itself and for the VMM of the next one.
const OWN: u64 = 256 << 20;
/// What a kernel takes of its memory at its start.
const KERNEL: u64 = 64 << 20;
/// The most memory of a guest of `vmbell run`.
const MOST: u64 = 3 << 30;

/// The alignment of the memory of a machine with another Linux inside: a saved state serves programs of similar sizes.
const UNIT: u64 = 128 << 20;

/// What a run gives L1: memory that becomes its window, with an archive in it whose header is to be written.
#[derive(Debug)]
pub(crate) struct Window {
    /// Memory without a name, so that no end of this process leaves it behind.
    pub file: File,
    /// The archive's length in bytes.
    pub length: u64,
    /// How many bytes of memory L1 needs.
    pub memory: u64,
}

impl Window {
    /// Writes the header, before L1 starts or continues.
    pub fn begin(&self, header: Header) -> Result<(), LabError> {
        let header = Header {
            length: self.length,
            ..header
        };
        let written = self.file.write_all_at(&header.to_bytes(), 0);
        Ok(written.map_err(temporary)?)
    }
}

/// Makes L1's window, with the file trees of all Linuxes inside it. Their headers are `header`, without a clock.
pub(crate) fn window(
    lab: &Lab,
    task: &Task,
    settings: &Settings,
    header: Header,
) -> Result<Window, LabError> {
    let mut memory = settings.memory;
    let mut inner: Option<(Nested, Vec<u8>)> = None;
    for depth in (1..=settings.depth).rev() {
        let mut write = |output: &mut dyn Write| match inner.take() {
            None => payload::write(lab, task, settings, output),
            Some((nested, tree)) => {
                payload::write_outer(lab, task, settings, depth, nested, &tree, output)
            }
        };
        if depth == 1 {
            let (file, length) = window_of(write)?;
            require_room(depth, length, memory)?;
            return Ok(Window {
                file,
                length,
                memory,
            });
        }
        if settings.vmm == Vmm::Vmbell && memory > MOST {
            return Err(LabError::NestedMemory { depth, memory });
        }
        let mut tree = Vec::new();
        payload::stable(lab, &mut tree)?;
        payload::header(header, &mut tree)?;
        write(&mut tree)?;
        require_room(depth, tree.len() as u64, memory)?;
        let outer = depth - 1;
        let nested = Nested {
            memory,
            vcpus: settings.mode.cpus(),
            parameters: kernel_parameters(&lab.board, settings, &[lab.board.inner_parameters]),
            qemu: match settings.vmm {
                Vmm::Vmbell => None,
                Vmm::Qemu => Some(payload::nested_qemu(lab)?),
            },
            levels: settings.depth - outer,
            exits: settings.exits && outer == 1,
            marks: settings.marks.filter(|_| outer == 1),
        };
        // A kernel keeps its initramfs until it has unpacked it.
        memory = (memory + 2 * tree.len() as u64 + OWN).next_multiple_of(UNIT);
        inner = Some((nested, tree));
    }
    unreachable!("a depth is at least 1")
}

/// The window of a machine that is to show that it can run a guest.
pub(crate) fn check(lab: &Lab, header: Header) -> Result<Window, LabError> {
    let (file, length) = window_of(|output| payload::write_check(lab, output))?;
    let window = Window {
        file,
        length,
        memory: 0,
    };
    window.begin(header)?;
    Ok(window)
}

/// Refuses files that do not fit: the root file system has half of the memory, and a Linux that gets them as its initramfs has
/// them twice at its start, next to its kernel.
fn require_room(depth: u32, length: u64, memory: u64) -> Result<(), LabError> {
    let others = if depth == 1 { 0 } else { KERNEL };
    match length > memory.saturating_sub(others) / 2 {
        true => Err(LabError::NoRoom {
            depth,
            length,
            memory,
        }),
        false => Ok(()),
    }
}

/// Memory of the window's size, with what `write` writes.
fn window_of(
    write: impl FnOnce(&mut dyn Write) -> Result<(), LabError>,
) -> Result<(File, u64), LabError> {
    let file = empty_window()?;
    let mut output = BufWriter::with_capacity(1 << 20, &file);
    output
        .seek(SeekFrom::Start(ARCHIVE as u64))
        .map_err(temporary)?;
    write(&mut output)?;
    let end = output.stream_position().map_err(temporary)?;
    drop(output);
    let length = end - ARCHIVE as u64;
    if end > WINDOW {
        return Err(LabError::TooMuch { length });
    }
    Ok((file, length))
}

/// A window with nothing in it.
pub(crate) fn empty_window() -> Result<File, LabError> {
    let file = memfd_create("vmbell-window", MemfdFlags::CLOEXEC)
        .map_err(|error| temporary(error.into()))?;
    let file = File::from(file);
    file.set_len(WINDOW).map_err(temporary)?;
    Ok(file)
}
