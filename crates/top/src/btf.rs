//! The kernel's description of its own types (BTF): offsets of structure members, and numbers of functions.
//!
//! `/sys/kernel/btf/vmlinux` describes the kernel, and `/sys/kernel/btf/kvm` adds the types of `kvm.ko`; a built-in KVM
//! is described in the first file. A module's type and string numbers continue after the kernel's. Programs take
//! offsets and sizes from here when they are loaded, so they fit the running kernel. The format is in Linux'
//! `Documentation/bpf/btf.rst`.

use std::io;
use std::path::{Path, PathBuf};

const MAGIC: u16 = 0xeb9f;
const HEADER: usize = 24;

const INT: u32 = 1;
const POINTER: u32 = 2;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const ENUM: u32 = 6;
const TYPEDEF: u32 = 8;
const FUNCTION: u32 = 12;
const PROTOTYPE: u32 = 13;
const FLOAT: u32 = 16;
const ENUM64: u32 = 19;
/// Typedefs, `volatile`, `const`, `restrict` and type tags refer to the type that they change.
const MODIFIERS: [u32; 5] = [TYPEDEF, 9, 10, 11, 18];
/// The maximum number of modifiers of one type.
const MODIFIED: usize = 32;
/// The deepest nesting of arrays and anonymous members.
const DEPTH: usize = 6;

/// The types of the kernel and of one module.
#[derive(Debug)]
pub struct Btf {
    kernel: BtfSection,
    module: Option<BtfSection>,
}

/// The types of one file.
#[derive(Debug)]
struct BtfSection {
    types: Vec<u8>,
    /// The offset of each type in `types`.
    starts: Vec<usize>,
    strings: Vec<u8>,
}

/// A member of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Bytes from the start of the structure.
    pub offset: u32,
    /// The member's size in bytes.
    pub size: u32,
}

/// A function, or a tracepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// The function's name.
    pub name: String,
    /// The function's number.
    pub id: u32,
    /// Whether the function is in the module, not in the kernel.
    pub in_module: bool,
    /// The names of its parameters. A tracepoint's parameters have no names.
    pub parameters: Vec<String>,
}

/// Why the kernel's types cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BtfError {
    /// The kernel has no BTF.
    #[error(
        "this kernel has no {} (CONFIG_DEBUG_INFO_BTF, CONFIG_DEBUG_INFO_BTF_MODULES)", path.display()
    )]
    Absent {
        /// Where the file would be.
        path: PathBuf,
    },
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why the file cannot be read.
        source: io::Error,
    },
    /// The bytes are not BTF of a known version.
    #[error("the kernel's BTF is malformed: {0}")]
    Malformed(&'static str),
    /// A structure or its member does not exist.
    #[error("this kernel has no {0}")]
    NoMember(String),
    /// None of these functions exists.
    #[error("this kernel has no function {0}")]
    NoFunction(String),
    /// The function has no parameter of this name.
    #[error("{function} of this kernel has no parameter {parameter}, but {own:?}")]
    NoParameter {
        /// The function.
        function: String,
        /// The parameter.
        parameter: String,
        /// The parameters that the function has.
        own: Vec<String>,
    },
}

type Result<T> = std::result::Result<T, BtfError>;

/// A type's fixed part and the data after it.
#[derive(Clone, Copy)]
struct Type<'a> {
    kind: u32,
    /// Whether the upper byte of a member's offset is the size of a bit-field.
    has_bit_fields: bool,
    length: usize,
    name: u32,
    /// The size or the type referred to.
    refers: u32,
    rest: &'a [u8],
}

impl Btf {
    /// Reads the types of the running kernel and, unless the module is built in, of the module.
    pub fn of_kernel(module: &str) -> Result<Self> {
        let folder = Path::new("/sys/kernel/btf");
        let kernel = read(&folder.join("vmlinux"))?;
        match read(&folder.join(module)) {
            Ok(module) => Self::parse(&kernel, Some(&module)),
            // A built-in module is described with the kernel, and has no file.
            Err(BtfError::Absent { .. }) => Self::parse(&kernel, None),
            Err(error) => Err(error),
        }
    }

    /// Parses the bytes of the kernel's file and of a module's.
    pub fn parse(kernel: &[u8], module: Option<&[u8]>) -> Result<Self> {
        Ok(Self {
            kernel: BtfSection::parse(kernel)?,
            module: module.map(BtfSection::parse).transpose()?,
        })
    }

    /// Whether the module is not built in.
    pub fn has_module(&self) -> bool {
        self.module.is_some()
    }

    /// The member of a structure, by its path: `io.port` in `kvm_run`. Members of anonymous members count as the structure's.
    pub fn member(&self, structure: &str, path: &str) -> Result<Member> {
        let structures = self.named(STRUCT, structure);
        let mut found = structures.filter_map(|id| self.follow(id, path).transpose());
        let none = || Err(BtfError::NoMember(format!("{structure}.{path}")));
        found.next().unwrap_or_else(none)
    }

    /// The first of these functions that exists.
    pub fn function(&self, names: &[&str]) -> Result<Function> {
        let ids = |name: &&str| self.named(FUNCTION, name).next();
        let none = || BtfError::NoFunction(names.join(" or "));
        let id = names.iter().find_map(ids).ok_or_else(none)?;
        self.prototype(id, self.get(id)?.refers)
    }

    /// Finds a tracepoint. Its first parameter is the kernel's own context pointer.
    pub fn tracepoint(&self, name: &str) -> Result<Function> {
        let none = || BtfError::NoFunction(format!("of the tracepoint {name}"));
        let typedef = format!("btf_trace_{name}");
        let id = self.named(TYPEDEF, &typedef).next().ok_or_else(none)?;
        let pointer = self.get(self.get(id)?.refers)?;
        self.prototype(id, pointer.refers)
    }

    fn prototype(&self, id: u32, prototype: u32) -> Result<Function> {
        let prototype = self.get(prototype)?;
        if prototype.kind != PROTOTYPE {
            return Err(BtfError::Malformed("a function without a prototype"));
        }
        let names = (0..prototype.length).map(|index| {
            let name = self.string(word(prototype.rest, index * 8)?)?;
            Ok(String::from_utf8_lossy(name).into_owned())
        });
        let name = self.string(self.get(id)?.name)?;
        Ok(Function {
            name: String::from_utf8_lossy(name).into_owned(),
            id,
            in_module: id > self.kernel.count(),
            parameters: names.collect::<Result<_>>()?,
        })
    }

    /// The types of this kind with this name, the module's first.
    fn named(&self, kind: u32, name: &str) -> impl Iterator<Item = u32> {
        let kernel = self.kernel.count();
        let all = kernel + self.module.as_ref().map_or(0, BtfSection::count);
        let ids = (kernel + 1..=all).chain(1..=kernel);
        ids.filter(move |id| {
            let found = self.get(*id);
            found.is_ok_and(|found| found.kind == kind && self.is_named(found.name, name))
        })
    }

    /// Whether a type has this name. A kernel has a hundred thousand types, so names are compared without first
    /// searching for their ends.
    fn is_named(&self, at: u32, name: &str) -> bool {
        let rest = self.strings_from(at).strip_prefix(name.as_bytes());
        rest.is_some_and(|rest| rest.first() == Some(&0))
    }

    /// The member at the end of a path; `None` if a part of the path does not exist.
    fn follow(&self, structure: u32, path: &str) -> Result<Option<Member>> {
        let (mut id, mut offset) = (structure, 0);
        for name in path.split('.') {
            let Some((at, of)) = self.find(id, name, DEPTH)? else {
                return Ok(None);
            };
            offset += at;
            id = of;
        }
        let size = self.size(id, DEPTH)?;
        Ok(Some(Member { offset, size }))
    }

    /// The offset and the type of a member.
    fn find(&self, id: u32, name: &str, depth: usize) -> Result<Option<(u32, u32)>> {
        let found = self.without_modifiers(id)?;
        if ![STRUCT, UNION].contains(&found.kind) || depth == 0 {
            return Ok(None);
        }
        for index in 0..found.length {
            let at = |field: usize| word(found.rest, index * 12 + field * 4);
            let (text, of, bits) = (self.string(at(0)?)?, at(1)?, at(2)?);
            let bits = if found.has_bit_fields {
                // A bit-field has no address.
                if bits >> 24 != 0 {
                    continue;
                }
                bits & 0xff_ffff
            } else {
                bits
            };
            if text == name.as_bytes() {
                return Ok(Some((bits / 8, of)));
            }
            if text.is_empty()
                && let Some((inner, of)) = self.find(of, name, depth - 1)?
            {
                return Ok(Some((bits / 8 + inner, of)));
            }
        }
        Ok(None)
    }

    fn size(&self, id: u32, depth: usize) -> Result<u32> {
        let found = self.without_modifiers(id)?;
        match found.kind {
            INT | STRUCT | UNION | ENUM | ENUM64 | FLOAT => Ok(found.refers),
            POINTER => Ok(8),
            ARRAY if depth > 0 => {
                let each = self.size(word(found.rest, 0)?, depth - 1)?;
                Ok(each.saturating_mul(word(found.rest, 8)?))
            }
            _ => Err(BtfError::Malformed("a member without a size")),
        }
    }

    fn without_modifiers(&self, mut id: u32) -> Result<Type<'_>> {
        for _ in 0..MODIFIED {
            let found = self.get(id)?;
            if !MODIFIERS.contains(&found.kind) {
                return Ok(found);
            }
            id = found.refers;
        }
        Err(BtfError::Malformed("a chain of types without an end"))
    }

    fn get(&self, id: u32) -> Result<Type<'_>> {
        let kernel = self.kernel.count();
        let (section, index) = match &self.module {
            Some(module) if id > kernel => (module, id - kernel),
            _ => (&self.kernel, id),
        };
        section.get(index)
    }

    fn string(&self, at: u32) -> Result<&[u8]> {
        let rest = self.strings_from(at);
        let end = rest.iter().position(|byte| *byte == 0);
        let end = end.ok_or(BtfError::Malformed("a name outside of the strings"))?;
        Ok(&rest[..end])
    }

    fn strings_from(&self, at: u32) -> &[u8] {
        let (at, kernel) = (at as usize, &self.kernel.strings);
        let (at, strings) = match &self.module {
            Some(module) if at >= kernel.len() => (at - kernel.len(), &module.strings),
            _ => (at, kernel),
        };
        strings.get(at..).unwrap_or_default()
    }
}

impl BtfSection {
    fn parse(bytes: &[u8]) -> Result<Self> {
        if bytes.len() < HEADER || bytes[..3] != [MAGIC.to_le_bytes()[0], MAGIC.to_le_bytes()[1], 1]
        {
            return Err(BtfError::Malformed(
                "not version 1 of this machine's byte order",
            ));
        }
        let part = |at: usize| {
            let header = word(bytes, 4)? as usize;
            let (from, length) = (word(bytes, at)? as usize, word(bytes, at + 4)? as usize);
            let from = header.saturating_add(from);
            let part = bytes.get(from..from.saturating_add(length));
            part.ok_or(BtfError::Malformed("a part outside of the file"))
        };
        let (types, strings) = (part(8)?.to_vec(), part(16)?.to_vec());
        let (mut starts, mut at) = (Vec::new(), 0);
        while at < types.len() {
            starts.push(at);
            at += 12 + Type::parse(&types[at..])?.rest_length()?;
        }
        if at != types.len() {
            return Err(BtfError::Malformed("a type without an end"));
        }
        Ok(Self {
            types,
            starts,
            strings,
        })
    }

    /// The number of types. Types are numbered from 1.
    fn count(&self) -> u32 {
        u32::try_from(self.starts.len()).unwrap_or(u32::MAX)
    }

    fn get(&self, index: u32) -> Result<Type<'_>> {
        let start = (index as usize).checked_sub(1);
        let start = start.and_then(|index| self.starts.get(index));
        let start = start.ok_or(BtfError::Malformed("a type that does not exist"))?;
        Type::parse(&self.types[*start..])
    }
}

impl<'a> Type<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self> {
        let info = word(bytes, 4)?;
        Ok(Self {
            kind: info >> 24 & 0x1f,
            has_bit_fields: info >> 31 != 0,
            length: (info & 0xffff) as usize,
            name: word(bytes, 0)?,
            refers: word(bytes, 8)?,
            rest: &bytes[12..],
        })
    }

    /// How many bytes of `rest` belong to this type.
    fn rest_length(&self) -> Result<usize> {
        match self.kind {
            INT | 14 | 17 => Ok(4),
            ARRAY => Ok(12),
            STRUCT | UNION | 15 | ENUM64 => Ok(self.length * 12),
            ENUM | PROTOTYPE => Ok(self.length * 8),
            POINTER | 7..=FUNCTION | FLOAT | 18 => Ok(0),
            _ => Err(BtfError::Malformed("an unknown kind of type")),
        }
    }
}

impl Function {
    /// The position of a parameter among the words of the program's context.
    pub fn parameter(&self, names: &[&str]) -> Result<usize> {
        let mut own = self.parameters.iter();
        let place = own.position(|own| names.contains(&own.as_str()));
        place.ok_or_else(|| BtfError::NoParameter {
            function: self.name.clone(),
            parameter: names.join(" or "),
            own: self.parameters.clone(),
        })
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|source| {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound => BtfError::Absent { path },
            _ => BtfError::Read { path, source },
        }
    })
}

/// Reads the word at this offset. Kernels write BTF in their own byte order, which is little-endian on BPF hosts here.
fn word(bytes: &[u8], at: usize) -> Result<u32> {
    let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
    let word = word.ok_or(BtfError::Malformed("a type that ends early"))?;
    Ok(u32::from_le_bytes(word))
}

#[cfg(test)]
#[path = "btf_test.rs"]
pub(crate) mod tests;
