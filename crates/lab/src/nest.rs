//! The file trees of several Linuxes inside each other: that of the innermost has the program, and each other one has the kernel
//! and the file tree of the next.
//!
//! Every Linux has as much memory as the next one, and in addition what it needs for that one's files and for itself.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};

use super::boot::{Settings, Vmm, kernel_parameters};
use super::job::Nested;
use super::run::temporary;
use super::{Lab, LabError, Task, payload};
use crate::FileError;

/// What a Linux needs for itself and for the VMM of the next one.
const OWN: u64 = 256 << 20;
/// The most memory of a guest of `vmbell run`.
const MOST: u64 = 3 << 30;
/// The memory of a machine is a multiple of this.
const UNIT: u64 = 2 << 20;

/// Makes L1's file tree in a file without a name, so that no end of this process leaves it behind, and says how many bytes of
/// memory L1 needs.
pub(crate) fn file_tree(
    lab: &Lab,
    task: &Task,
    settings: &Settings,
) -> Result<(File, u64), LabError> {
    let mut tree = archive(lab, |output| payload::write(lab, task, settings, output))?;
    let mut memory = settings.memory;
    for depth in (1..settings.depth).rev() {
        let board = &lab.board;
        if settings.vmm == Vmm::Vmbell && memory > MOST {
            return Err(LabError::NestedMemory {
                depth: depth + 1,
                memory,
            });
        }
        let nested = Nested {
            memory,
            vcpus: settings.mode.cpus(),
            parameters: kernel_parameters(board, settings, &[board.inner_parameters]),
            qemu: match settings.vmm {
                Vmm::Vmbell => None,
                Vmm::Qemu => Some(payload::nested_qemu(lab)?),
            },
            levels: settings.depth - depth,
            exits: settings.exits && depth == 1,
            marks: settings.marks.filter(|_| depth == 1),
        };
        let mut inner = Vec::new();
        tree.seek(SeekFrom::Start(0))
            .and_then(|_| tree.read_to_end(&mut inner))
            .map_err(temporary)?;
        tree = archive(lab, |output| {
            payload::write_outer(lab, task, settings, depth, nested, &inner, output)
        })?;
        // The kernel keeps the archive until it has unpacked it.
        let files = tree.metadata().map_err(temporary)?.len() * 2;
        memory = (memory + files + OWN).next_multiple_of(UNIT);
    }
    Ok((tree, memory))
}

/// A file with the kernel's modules and then what `write` writes.
fn archive(
    lab: &Lab,
    write: impl FnOnce(&mut dyn Write) -> Result<(), LabError>,
) -> Result<File, LabError> {
    let base = &lab.kernel.base;
    let mut base = File::open(base).map_err(FileError::of("read", base))?;
    let mut file = tempfile::tempfile().map_err(temporary)?;
    io::copy(&mut base, &mut file).map_err(temporary)?;
    let mut output = BufWriter::with_capacity(1 << 20, file);
    write(&mut output)?;
    let file = output.into_inner().map_err(|error| error.into_error());
    Ok(file.map_err(temporary)?)
}
