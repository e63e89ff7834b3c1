//! The system call bpf(2): maps, programs and the links that attach them.
//!
//! A map, a program and a link are descriptors of this process. When the last descriptor of a link is closed, the
//! kernel detaches the program, so nothing stays attached however this process ends. Nothing is pinned. The layouts are
//! those of `union bpf_attr` in Linux' `include/uapi/linux/bpf.h`.
#![allow(unsafe_code, reason = "bpf(2) takes addresses of memory as numbers")]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const MAP_CREATE: libc::c_long = 0;
const MAP_LOOKUP: libc::c_long = 1;
const MAP_DELETE: libc::c_long = 3;
const PROGRAM_LOAD: libc::c_long = 5;
const OBJECT_INFO: libc::c_long = 15;
/// BPF_RAW_TRACEPOINT_OPEN attaches every program of this type to the target that it was loaded for.
const ATTACH: libc::c_long = 17;
const BTF_BY_ID: libc::c_long = 19;
const BTF_NEXT_ID: libc::c_long = 23;
/// Exists since Linux 5.6. The BTF of modules, which is also needed, is newer.
const MAP_LOOKUP_BATCH: libc::c_long = 24;

const TRACING: u32 = 26;
/// Reading kernel structures needs a licence that the kernel accepts as compatible with the GPL.
const LICENCE: &CStr = c"Dual BSD/GPL";
/// The maximum number of bytes of the verifier's log about a refused program.
const LOG: usize = 1 << 18;
/// The start of `struct bpf_prog_info`, up to and including `recursion_misses`.
const PROGRAM_INFO: usize = 216;

/// The type of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MapType {
    Hash = 1,
    Array = 2,
}

/// When a program runs, and what it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attach {
    /// At a tracepoint, with its parameters.
    Tracepoint = 23,
    /// Before a function, with its parameters.
    Entry = 24,
    /// After a function, with its parameters and its result.
    Exit = 25,
}

/// A map with keys and values of these sizes.
#[derive(Debug)]
pub(super) struct Map<const KEY: usize, const VALUE: usize> {
    fd: OwnedFd,
    room: u32,
}

/// A program and its attachment.
#[derive(Debug)]
pub(super) struct Link {
    program: OwnedFd,
    _link: OwnedFd,
}

/// Why a program was not loaded.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) source: io::Error,
    /// The end of the verifier's message.
    pub(super) log: String,
}

/// The argument of the system call.
struct Attr([u8; 128]);

impl Attr {
    const fn new() -> Self {
        Self([0; 128])
    }

    fn word(mut self, at: usize, word: u32) -> Self {
        self.0[at..at + 4].copy_from_slice(&word.to_ne_bytes());
        self
    }

    fn fd(self, at: usize, fd: &impl AsRawFd) -> Self {
        // A descriptor is not negative.
        self.word(at, fd.as_raw_fd().cast_unsigned())
    }

    fn address<T: ?Sized>(mut self, at: usize, memory: *const T) -> Self {
        let address = memory.cast::<u8>() as u64;
        self.0[at..at + 8].copy_from_slice(&address.to_ne_bytes());
        self
    }

    fn get(&self, at: usize) -> u32 {
        let mut word = [0; 4];
        word.copy_from_slice(&self.0[at..at + 4]);
        u32::from_ne_bytes(word)
    }

    /// Makes the system call.
    ///
    /// # Safety
    /// Each address in the argument points to memory that lives until the call returns and is as long as the command reads
    /// or writes there.
    unsafe fn call(&mut self, command: libc::c_long) -> io::Result<libc::c_long> {
        let (attr, length) = (self.0.as_mut_ptr(), self.0.len());
        // SAFETY: `attr` is this value's own array of `length` bytes, borrowed until the call returns; the addresses in it
        // are the caller's promise.
        let result = unsafe { libc::syscall(libc::SYS_bpf, command, attr, length) };
        if result < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(result)
        }
    }

    /// Makes the system call for a command that returns a descriptor.
    ///
    /// # Safety
    /// As for `call`; and the command returns a descriptor.
    unsafe fn open(&mut self, command: libc::c_long) -> io::Result<OwnedFd> {
        // SAFETY: the caller's promise.
        let fd = unsafe { self.call(command) }?;
        let fd = i32::try_from(fd).map_err(io::Error::other)?;
        // SAFETY: the kernel has just made `fd` for this process, close-on-exec, and no other code knows the number.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

impl<const KEY: usize, const VALUE: usize> Map<KEY, VALUE> {
    /// Makes a map with room for this number of values.
    pub(super) fn new(of: MapType, room: u32) -> io::Result<Self> {
        let sizes = [KEY, VALUE].map(|size| u32::try_from(size).unwrap_or(u32::MAX));
        let mut attr = Attr::new().word(0, of as u32).word(4, sizes[0]);
        attr = attr.word(8, sizes[1]).word(12, room);
        // SAFETY: the argument has no address; the command returns a descriptor.
        let fd = unsafe { attr.open(MAP_CREATE) }?;
        Ok(Self { fd, room })
    }

    pub(super) fn fd(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    /// The value of a key; `None` if the map does not have the key.
    pub(super) fn get(&self, key: &[u8; KEY]) -> io::Result<Option<[u8; VALUE]>> {
        let mut value = [0; VALUE];
        let mut attr = Attr::new().fd(0, &self.fd).address(8, key);
        attr = attr.address(16, &raw mut value);
        // SAFETY: `key` is borrowed, `value` is a local, and both have the lengths that the map was made for.
        match unsafe { attr.call(MAP_LOOKUP) } {
            Ok(_) => Ok(Some(value)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All keys and values of a hash map. An entry that exists during the whole call is returned exactly once.
    pub(super) fn entries(&self) -> io::Result<Vec<([u8; KEY], [u8; VALUE])>> {
        // The buffer holds all entries, so no hash bucket is too large for a call.
        let room = self.room as usize;
        let (mut keys, mut values) = (vec![[0; KEY]; room], vec![[0; VALUE]; room]);
        let mut entries = Vec::new();
        // The hash bucket to continue with.
        let [mut from, mut next] = [0_u32; 2];
        let mut is_first = true;
        loop {
            let mut attr = Attr::new().address(8, &raw mut next);
            if !is_first {
                attr = attr.address(0, &raw const from);
            }
            attr = attr.address(16, keys.as_mut_ptr());
            attr = attr.address(24, values.as_mut_ptr());
            attr = attr.word(32, self.room).fd(36, &self.fd);
            // SAFETY: the kernel writes at most `room` keys and values of the map's sizes to two arrays of that many, and
            // reads and writes four bytes at `from` and `next`; all are this function's own.
            let result = unsafe { attr.call(MAP_LOOKUP_BATCH) };
            let is_last = match result {
                Ok(_) => false,
                // These are the last entries.
                Err(error) if error.kind() == io::ErrorKind::NotFound => true,
                Err(error) => return Err(error),
            };
            let count = room.min(attr.get(32) as usize);
            let found = keys[..count].iter().zip(&values[..count]);
            entries.extend(found.map(|(key, value)| (*key, *value)));
            if is_last {
                return Ok(entries);
            }
            (from, is_first) = (next, false);
        }
    }

    /// Removes a key, if it is there.
    pub(super) fn remove(&self, key: &[u8; KEY]) -> io::Result<()> {
        let mut attr = Attr::new().fd(0, &self.fd).address(8, key);
        // SAFETY: `key` is borrowed by this function, and has the length of the map's keys.
        match unsafe { attr.call(MAP_DELETE) } {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

impl Link {
    /// Loads a program for a function or a tracepoint and attaches it. `module` is the BTF of the module that contains
    /// the function or tracepoint.
    pub(super) fn new(
        code: &[u64],
        attach: Attach,
        function: u32,
        module: Option<&OwnedFd>,
    ) -> Result<Self, Refused> {
        let program = match load(code, attach, function, module, &mut []) {
            Ok(program) => program,
            // Loads the program again to get the verifier's log.
            Err(source) => {
                let mut log = vec![0; LOG];
                let _ = load(code, attach, function, module, &mut log);
                let end = log.iter().position(|byte| *byte == 0).unwrap_or(LOG);
                let log = String::from_utf8_lossy(&log[..end]).into_owned();
                return Err(Refused { source, log });
            }
        };
        let refused = |source| Refused {
            source,
            log: "loaded, but not attached".to_owned(),
        };
        let mut attr = Attr::new().fd(8, &program);
        // SAFETY: the argument has no address; the command returns a descriptor.
        let link = unsafe { attr.open(ATTACH) }.map_err(refused)?;
        Ok(Self {
            program,
            _link: link,
        })
    }

    /// How often the program did not run because it was already running on the same CPU.
    pub(super) fn missed(&self) -> io::Result<u64> {
        let info: [u8; PROGRAM_INFO] = info(&self.program)?;
        let mut misses = [0; 8];
        misses.copy_from_slice(&info[PROGRAM_INFO - 8..]);
        Ok(u64::from_ne_bytes(misses))
    }
}

fn load(
    code: &[u64],
    attach: Attach,
    function: u32,
    module: Option<&OwnedFd>,
    log: &mut [u8],
) -> io::Result<OwnedFd> {
    let count = u32::try_from(code.len()).map_err(io::Error::other)?;
    let mut attr = Attr::new().word(0, TRACING).word(4, count);
    attr = attr.address(8, code).address(16, LICENCE.as_ptr());
    if !log.is_empty() {
        let length = u32::try_from(log.len()).map_err(io::Error::other)?;
        attr = attr.word(24, 1).word(28, length).address(32, log);
    }
    attr = attr.word(68, attach as u32).word(108, function);
    if let Some(module) = module {
        attr = attr.fd(112, module);
    }
    // SAFETY: `code` and `log` are borrowed by this function and have the lengths that the argument says; the licence is a
    // string of the program that ends with a zero. The command returns a descriptor.
    unsafe { attr.open(PROGRAM_LOAD) }
}

/// Opens the kernel's BTF of a module. Only CAP_SYS_ADMIN may search for it.
pub(super) fn module_btf(module: &str) -> io::Result<OwnedFd> {
    let mut id = 0;
    loop {
        let mut attr = Attr::new().word(0, id);
        // SAFETY: the argument has no address.
        unsafe { attr.call(BTF_NEXT_ID) }?;
        id = attr.get(4);
        let mut attr = Attr::new().word(0, id);
        // SAFETY: the argument has no address; the command returns a descriptor.
        let fd = match unsafe { attr.open(BTF_BY_ID) } {
            // The module was unloaded meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            other => other?,
        };
        if btf_name(&fd)? == module.as_bytes() {
            return Ok(fd);
        }
    }
}

/// The name in `struct bpf_btf_info`.
fn btf_name(fd: &OwnedFd) -> io::Result<Vec<u8>> {
    let mut name = [0_u8; 64];
    let mut info = Attr::new().address(16, &raw mut name).word(24, 64);
    let mut attr = Attr::new().fd(0, fd).word(4, 32);
    attr = attr.address(8, &raw mut info.0);
    // SAFETY: the kernel reads and writes the first 32 bytes of `info` and at most 64 bytes of `name`, whose address and
    // length are in `info`; both are this function's own.
    unsafe { attr.call(OBJECT_INFO) }?;
    let end = name
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(name.len());
    Ok(name[..end].to_vec())
}

/// The first bytes of the kernel's information about a program.
fn info<const LENGTH: usize>(fd: &OwnedFd) -> io::Result<[u8; LENGTH]> {
    let mut info = [0; LENGTH];
    let length = u32::try_from(LENGTH).map_err(io::Error::other)?;
    let mut attr = Attr::new().fd(0, fd).word(4, length);
    attr = attr.address(8, &raw mut info);
    // SAFETY: the kernel writes at most `LENGTH` bytes to `info`, which this function owns. `info` is zero, so its
    // counts and addresses of other arrays are 0, and the kernel writes to no other memory.
    unsafe { attr.call(OBJECT_INFO) }?;
    Ok(info)
}
