//! Reads an ELF file's architecture, loader and needed libraries.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};

use object::elf::{
    DT_NEEDED, DT_RPATH, DT_RUNPATH, EM_AARCH64, EM_X86_64, FileHeader64, PT_INTERP, PT_LOAD,
};
use object::read::elf::{Dyn, ElfFile64, FileHeader, ProgramHeader};
use object::read::{ReadCache, ReadRef};

use super::Interpreter;
use crate::error::{LabError, cannot, failed};

/// How much to read of a file that is not an ELF, for the first line of a script.
const BEGIN: u64 = 4096;

/// The facts of an ELF file that determine where it runs and what it needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ElfFacts {
    /// `x86_64`, `aarch64` or a number.
    pub arch: String,
    /// The dynamic loader (PT_INTERP); `None` for a static program and for most libraries.
    pub interpreter: Option<PathBuf>,
    /// Names of the needed libraries (DT_NEEDED).
    pub needed: Vec<String>,
    /// Folders that the loader searches before `LD_LIBRARY_PATH` (DT_RPATH).
    pub rpath: Vec<String>,
    /// Folders that the loader searches after `LD_LIBRARY_PATH` (DT_RUNPATH).
    pub runpath: Vec<String>,
    /// Bytes from the start of the file to the end of its last loaded segment: all of it that is needed to run.
    pub loaded: usize,
}

impl ElfFacts {
    /// Reads the facts from a 64-bit ELF file, without reading the rest: with debug information, a program may have a
    /// hundred megabytes. `arch` is L1's architecture, named in the error if the file is not such an ELF.
    pub fn read(path: &Path, arch: &'static str) -> Result<Self, LabError> {
        let file = File::open(path).map_err(cannot("read", path))?;
        let cache = ReadCache::new(file);
        if let Some(facts) = Self::parse(&cache) {
            return Ok(facts);
        }
        let mut file = cache.into_inner();
        let mut begin = Vec::new();
        file.rewind()
            .and_then(|()| file.take(BEGIN).read_to_end(&mut begin))
            .map_err(cannot("read", path))?;
        Err(match Interpreter::of_line(&begin) {
            Some(interpreter) => interpreter.refuse(path, arch),
            None => failed!(
                "{} is not an ELF program for {arch}: it is {}",
                path.display(),
                describe(&begin)
            ),
        })
    }

    /// Parses a 64-bit ELF; `None` if the bytes are not a well-formed ELF.
    pub fn parse<'data>(bytes: impl ReadRef<'data>) -> Option<Self> {
        let file = ElfFile64::<object::Endianness, _>::parse(bytes).ok()?;
        let endian = file.endian();
        let header: &FileHeader64<_> = file.elf_header();
        let arch = match header.e_machine(endian) {
            EM_X86_64 => "x86_64".to_owned(),
            EM_AARCH64 => "aarch64".to_owned(),
            other => format!("machine {other:?}"),
        };
        let mut facts = Self {
            arch,
            ..Self::default()
        };
        for segment in file.elf_program_headers() {
            if segment.p_type(endian) == PT_INTERP
                && let Ok(Some(name)) = segment.interpreter(endian, bytes)
            {
                facts.interpreter = Some(PathBuf::from(std::str::from_utf8(name).ok()?));
            }
            if segment.p_type(endian) == PT_LOAD {
                let end = segment
                    .p_offset(endian)
                    .saturating_add(segment.p_filesz(endian));
                facts.loaded = facts.loaded.max(usize::try_from(end).ok()?);
            }
        }
        let table = file.elf_dynamic_table().ok()?;
        for entry in table.dynamics() {
            let text = || {
                let offset: u64 = entry.d_val(endian);
                let text = table.strings().get(u32::try_from(offset).ok()?).ok()?;
                Some(String::from_utf8_lossy(text).into_owned())
            };
            match entry.d_tag(endian) {
                DT_NEEDED => facts.needed.push(text()?),
                DT_RPATH => facts.rpath.extend(text()?.split(':').map(str::to_owned)),
                DT_RUNPATH => facts.runpath.extend(text()?.split(':').map(str::to_owned)),
                _ => {}
            }
        }
        Some(facts)
    }
}

fn describe(bytes: &[u8]) -> String {
    match bytes {
        [] => "empty".to_owned(),
        [0x7f, b'E', b'L', b'F', 1, ..] => "a 32-bit ELF".to_owned(),
        [0x7f, b'E', b'L', b'F', ..] => "a broken ELF".to_owned(),
        _ => "something else".to_owned(),
    }
}
