//! One boot of L1 in Bochs. The machine's images are in anonymous memory files, so no file is left when this process
//! ends.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{ChildStdout, Stdio};
use std::time::Instant;

use loader::window::{ARCHIVE, HEADER_FILE, Header};
use rustix::fs::{MemfdFlags, memfd_create};

use super::machine::{channels, inherited};
use super::supervise::{ENDING, LEAVING, LOOKING, Patience, answering};
use super::{LabBootResult, RunningVmm, Settings, Sinks, arguments, frames, process};
use crate::board::{IntelCpu, LabBoard};
use crate::bochs::Bochs;
use crate::bochs::config::{BochsFiles, config};
use crate::bochs::images::{FlatKernel, MemoryLayout, option_rom};
use crate::error::{LabError, cannot};
use crate::files::temporary;
use crate::initramfs::Archive;

/// A Linux in Bochs gets this many times as long to react as one in QEMU: it looks for requests every 250 ms of its
/// clock, and Bochs executes 250,000,000 instructions in that time, which takes seconds.
const SLOWNESS: u32 = 6;

/// All that one boot needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BochsPlan<'a> {
    pub board: &'a LabBoard,
    pub bochs: &'a Bochs,
    pub cpu: IntelCpu,
    /// The `vmbell` program, which starts Bochs.
    pub vmbell: &'a Path,
    pub kernel: &'a Path,
    pub initramfs: &'a File,
    /// The window with the archive of the run, and the archive's length.
    pub window: (&'a File, u64),
    pub header: Header,
    pub settings: &'a Settings,
}

impl BochsPlan<'_> {
    /// Boots L1, waits until Bochs has ended or has to be killed, and cleans up.
    pub fn run(&self, sinks: Sinks) -> Result<LabBootResult, LabError> {
        let settings = self.settings;
        self.board.emulator.check_memory(settings.memory)?;
        let begun = Instant::now();
        let kernel = FlatKernel::read(self.kernel)?;
        let initrd = self.initrd()?;
        let length = initrd.metadata().map_err(temporary)?.len();
        // Bochs takes whole megabytes.
        let memory = settings.memory >> 20 << 20;
        let layout = MemoryLayout::new(&kernel, length, memory)?;
        let line = arguments::parameters(self.board, settings, arguments::stalls(settings.mode));
        let open = |path: &Path| File::open(path).map_err(cannot("read", path));
        let images = [
            open(self.bochs.bios())?,
            open(self.bochs.vga_bios())?,
            image(&option_rom(kernel.entry))?,
            image(&kernel.bytes)?,
            initrd,
            image(&layout.start_information(&line))?,
        ];
        let (console, to_console) = io::pipe().map_err(cannot("make", "a pipe"))?;
        let [bios, vga_bios, rom, kernel_image, initrd, info] = &images;
        let files = BochsFiles {
            bios: inherited(bios)?,
            vga_bios: inherited(vga_bios)?,
            rom: inherited(rom)?,
            kernel: inherited(kernel_image)?,
            initrd: inherited(initrd)?,
            info: inherited(info)?,
            console: inherited(&to_console)?,
        };
        let text = config(self.cpu, settings.mode, &layout, kernel.begin, &files);
        let description = image(text.as_bytes())?;
        let words = [
            self.bochs.program().into(),
            "-q".into(),
            "-f".into(),
            format!("/proc/self/fd/{}", inherited(&description)?).into(),
        ];
        let mut channels = channels()?;
        let ends = frames::take_ends(&mut channels)?;
        let mut child = process::start_program(self.vmbell, &words, &[], Stdio::piped())?;
        let (Some(from), Some(to)) = (child.stdout.take(), child.stdin.take()) else {
            unreachable!("the program starts with pipes");
        };
        frames::join(ends, from, to);
        // The console's stream ends when Bochs ends, but only if no other process holds the other end.
        drop(to_console);
        child.stdout = Some(ChildStdout::from(OwnedFd::from(console)));
        let patience = Patience {
            ending: ENDING * SLOWNESS,
            leaving: LEAVING * SLOWNESS,
            to_the_end: true,
            answering: answering(settings.mode),
            looking: LOOKING,
        };
        RunningVmm::new(child, channels, begun, settings.show_console).follow(
            sinks,
            settings.limits,
            patience,
        )
    }

    /// Returns the files of L1 as one initramfs: those of each run, those of this run, and the header.
    fn initrd(&self) -> Result<File, LabError> {
        let mut output = memory()?;
        let (mut initramfs, (mut window, length)) = (self.initramfs, self.window);
        let mut copy = |from: &mut dyn io::Read| {
            io::copy(from, &mut output)?;
            // The kernel looks for the next archive at a multiple of four.
            let end = output.stream_position()?;
            output.set_len(end.next_multiple_of(4))?;
            output.seek(SeekFrom::End(0))
        };
        initramfs.rewind().map_err(temporary)?;
        copy(&mut initramfs).map_err(temporary)?;
        let begin = SeekFrom::Start(ARCHIVE as u64);
        window.seek(begin).map_err(temporary)?;
        copy(&mut io::Read::take(window, length)).map_err(temporary)?;
        let mut archive = Archive::new(output);
        let header = self.header.to_bytes();
        archive.file(Path::new(HEADER_FILE), 0o400, &header)?;
        archive.finish()
    }
}

/// Makes a memory file with these bytes.
fn image(bytes: &[u8]) -> Result<File, LabError> {
    let mut file = memory()?;
    file.write_all(bytes).map_err(temporary)?;
    Ok(file)
}

/// Makes an empty memory file for Bochs to read.
fn memory() -> Result<File, LabError> {
    let memory = memfd_create("vmbell-bochs", MemfdFlags::CLOEXEC);
    memory
        .map(File::from)
        .map_err(|error| temporary(error.into()))
}
