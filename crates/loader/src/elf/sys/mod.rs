//! The system calls that the loader needs.

mod number;

use core::arch::asm;

use super::text::Path;
use crate::window::LAST_WORDS;

/// The folder at which relative paths begin. The loader uses only absolute paths.
const AT_FDCWD: usize = (-100_isize).cast_unsigned();
/// Opens a file for reading.
pub const READ: usize = 0;
/// Opens a file for writing, and makes or empties it.
pub const WRITE: usize = 0o1 | 0o100 | 0o1000;
/// Opens a file for reading and writing.
pub const READ_WRITE: usize = 0o2;
const APPEND: usize = 0o1 | 0o100 | 0o2000;
/// The error if a folder exists already, or a module is loaded already.
pub const EEXIST: u32 = 17;
/// Clocks.
pub const CLOCK_REALTIME: usize = 0;
pub const CLOCK_MONOTONIC: usize = 1;
/// The maximum number of CPUs in a machine.
pub const CPUS: usize = usize::BITS as usize;
/// The protection of mapped memory.
const READ_AND_WRITE: usize = 3;

/// # Safety
/// The arguments are those of the call with this number, and what they point to is valid for the call.
unsafe fn call(number: usize, a: [usize; 6]) -> isize {
    let result: isize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller vouches for the arguments; the kernel changes only these registers.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result, in("rdi") a[0], in("rsi") a[1], in("rdx") a[2],
             in("r10") a[3], in("r8") a[4], in("r9") a[5], lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        asm!("svc #0", in("x8") number, inlateout("x0") a[0] as isize => result, in("x1") a[1], in("x2") a[2],
             in("x3") a[3], in("x4") a[4], in("x5") a[5], options(nostack));
    }
    result
}

/// Converts a call's return value to a result, or to the number of the error.
fn result(returned: isize) -> Result<usize, u32> {
    usize::try_from(returned)
        .map_err(|_| u32::try_from(returned.unsigned_abs()).unwrap_or(u32::MAX))
}

/// Writes to the console.
pub fn say(parts: &[&str]) {
    for part in parts {
        // SAFETY: the part is valid for reads of its length. An error is ignored: it could not be reported.
        unsafe {
            call(
                number::WRITE,
                [2, part.as_ptr() as usize, part.len(), 0, 0, 0],
            )
        };
    }
}

/// Ends the machine: a kernel panics if process 1 ends, and process 1 ends if it finds that its child failed.
pub fn die(reason: &str) -> ! {
    // A record in the kernel's log, at a level that it always shows: if a program writes to the console, the text may
    // still be in transit when the kernel panics, and is then lost.
    let record = Path::of(&["<0>", LAST_WORDS, reason, "\n"]);
    if !write_existing(&Path::of(&["/dev/kmsg"]), record.bytes()) {
        // There is no /dev yet.
        say(&[LAST_WORDS, reason, "\n"]);
    }
    exit(1)
}

/// Ends this process.
pub fn exit(status: usize) -> ! {
    loop {
        // SAFETY: the call takes only a number.
        unsafe { call(number::EXIT_GROUP, [status, 0, 0, 0, 0, 0]) };
    }
}

/// Returns the number of this process.
pub fn process_id() -> isize {
    // SAFETY: the call takes no arguments.
    unsafe { call(number::GETPID, [0; 6]) }
}

/// Returns whether the file exists and can be read.
pub fn exists(path: &Path) -> bool {
    open(path, READ).map(close).is_some()
}

/// Opens a file.
pub fn open(path: &Path, flags: usize) -> Option<usize> {
    // SAFETY: the path ends with a zero byte.
    let opened = unsafe {
        call(
            number::OPENAT,
            [AT_FDCWD, path.address(), flags, 0o644, 0, 0],
        )
    };
    result(opened).ok()
}

/// Closes a descriptor that [`open`] returned.
pub fn close(fd: usize) {
    // SAFETY: the caller no longer uses the descriptor.
    unsafe { call(number::CLOSE, [fd, 0, 0, 0, 0, 0]) };
}

/// Reads a file into `to`, up to the file's end. Returns the number of bytes read.
pub fn read_file(path: &Path, to: &mut [u8]) -> Option<usize> {
    let fd = open(path, READ)?;
    let length = read_some(fd, to);
    close(fd);
    Some(length)
}

/// Reads from an open file or connection until its end, or until `to` is full. Returns the number of bytes read.
pub fn read_some(fd: usize, to: &mut [u8]) -> usize {
    let mut length = 0;
    while let Some(rest) = to.get_mut(length..).filter(|rest| !rest.is_empty()) {
        // SAFETY: `rest` is valid for writes of its length.
        let read = unsafe {
            call(
                number::READ,
                [fd, rest.as_mut_ptr() as usize, rest.len(), 0, 0, 0],
            )
        };
        match result(read) {
            Ok(0) | Err(_) => break,
            Ok(read) => length += read,
        }
    }
    length
}

/// Connects to a vsock port of the host.
pub fn connect_to_host(port: u32) -> Option<usize> {
    const AF_VSOCK: u32 = 40;
    const SOCK_STREAM: usize = 1;
    const VMADDR_CID_HOST: u32 = 2;
    // SAFETY: the call takes only numbers.
    let socket =
        result(unsafe { call(number::SOCKET, [AF_VSOCK as usize, SOCK_STREAM, 0, 0, 0, 0]) });
    let socket = socket.ok()?;
    // `struct sockaddr_vm`: 16 bits of family and 16 reserved bits, port, context ID, and padding.
    let address = [AF_VSOCK, port, VMADDR_CID_HOST, 0];
    let (begin, size) = (address.as_ptr() as usize, size_of_val(&address));
    // SAFETY: `address` has this size.
    let connected = result(unsafe { call(number::CONNECT, [socket, begin, size, 0, 0, 0]) });
    if connected.is_err() {
        close(socket);
        return None;
    }
    Some(socket)
}

/// Writes all of `bytes` to an open file. Returns whether that succeeded.
pub fn write_all(fd: usize, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        // SAFETY: `bytes` is valid for reads of its length.
        let wrote = unsafe {
            call(
                number::WRITE,
                [fd, bytes.as_ptr() as usize, bytes.len(), 0, 0, 0],
            )
        };
        match result(wrote) {
            Ok(wrote @ 1..) => bytes = bytes.get(wrote..).unwrap_or_default(),
            _ => return false,
        }
    }
    true
}

/// Writes to an existing file, such as the kernel's. Returns whether that succeeded.
pub fn write_existing(path: &Path, bytes: &[u8]) -> bool {
    let Some(fd) = open(path, READ_WRITE) else {
        return false;
    };
    let good = write_all(fd, bytes);
    close(fd);
    good
}

/// Adds a line to a file.
pub fn append_line(path: &Path, parts: &[&str]) {
    if let Some(fd) = open(path, APPEND) {
        let mut parts = parts.iter().chain(&["\n"]);
        // Errors are ignored: this file is the only place to report them.
        let _ = parts.all(|part| write_all(fd, part.as_bytes()));
        close(fd);
    }
}

/// Sets the permissions of an open file.
pub fn set_permissions(fd: usize, mode: u32) {
    // SAFETY: the call takes only numbers.
    unsafe { call(number::FCHMOD, [fd, mode as usize, 0, 0, 0, 0]) };
}

/// Makes a folder.
pub fn make_folder(path: &Path, mode: u32) -> Result<(), u32> {
    // SAFETY: the path ends with a zero byte.
    result(unsafe {
        call(
            number::MKDIRAT,
            [AT_FDCWD, path.address(), mode as usize, 0, 0, 0],
        )
    })
    .map(drop)
}

/// Makes a symbolic link at `path`.
pub fn make_link(target: &Path, path: &Path) -> Result<(), u32> {
    // SAFETY: both paths end with a zero byte.
    result(unsafe {
        call(
            number::SYMLINKAT,
            [target.address(), AT_FDCWD, path.address(), 0, 0, 0],
        )
    })
    .map(drop)
}

/// Makes a device's file.
pub fn make_device(path: &Path, mode: u32, (major, minor): (u32, u32)) -> Result<(), u32> {
    // The encoding of the kernel's new_encode_dev().
    let device = (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12);
    // SAFETY: the path ends with a zero byte.
    result(unsafe {
        call(
            number::MKNODAT,
            [
                AT_FDCWD,
                path.address(),
                mode as usize,
                device as usize,
                0,
                0,
            ],
        )
    })
    .map(drop)
}

/// Mounts a file system of this kind.
pub fn mount(kind: &Path, place: &Path, options: &Path) -> Result<(), u32> {
    // SAFETY: all four end with zero bytes.
    result(unsafe {
        call(
            number::MOUNT,
            [
                kind.address(),
                place.address(),
                kind.address(),
                0,
                options.address(),
                0,
            ],
        )
    })
    .map(drop)
}

/// Loads a module from a file.
pub fn load_module(fd: usize, options: &Path) -> Result<(), u32> {
    // SAFETY: the options end with a zero byte.
    result(unsafe { call(number::FINIT_MODULE, [fd, options.address(), 0, 0, 0, 0]) }).map(drop)
}

/// Reads the next entries of an open folder (`struct linux_dirent64`).
pub fn list(fd: usize, to: &mut [u8]) -> usize {
    // SAFETY: `to` is valid for writes of its length.
    result(unsafe {
        call(
            number::GETDENTS64,
            [fd, to.as_mut_ptr() as usize, to.len(), 0, 0, 0],
        )
    })
    .unwrap_or(0)
}

/// Sets the time of day, in nanoseconds since the epoch.
pub fn set_clock(nanoseconds: u64) {
    let time = [nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000];
    // SAFETY: `time` is a `struct timespec`.
    unsafe {
        call(
            number::CLOCK_SETTIME,
            [CLOCK_REALTIME, time.as_ptr() as usize, 0, 0, 0, 0],
        )
    };
}

/// Does an ioctl on a device.
pub fn ioctl(fd: usize, request: usize, argument: usize) {
    // SAFETY: the callers pass a number, or the address of what the request reads.
    unsafe { call(number::IOCTL, [fd, request, argument, 0, 0, 0]) };
}

/// Maps a part of an open file for the rest of this process's life.
pub fn map(fd: usize, begin: usize, length: usize) -> Option<&'static [u8]> {
    const SHARED: usize = 1;
    let arguments = [0, length, READ_AND_WRITE, SHARED, fd, begin];
    // SAFETY: it requests new memory.
    let mapped = result(unsafe { call(number::MMAP, arguments) }).ok()?;
    // SAFETY: the memory was just mapped and stays mapped. The host changes it only while this machine is stopped.
    Some(unsafe { core::slice::from_raw_parts(mapped as *const u8, length) })
}

/// Returns zeroed memory for the rest of this process's life.
pub fn new_memory(length: usize) -> Option<&'static mut [u8]> {
    const PRIVATE_ANONYMOUS: usize = 0x22;
    let arguments = [0, length, READ_AND_WRITE, PRIVATE_ANONYMOUS, usize::MAX, 0];
    // SAFETY: it requests new memory.
    let begin = result(unsafe { call(number::MMAP, arguments) }).ok()?;
    // SAFETY: the memory was just mapped, has no other owner, and stays mapped.
    Some(unsafe { core::slice::from_raw_parts_mut(begin as *mut u8, length) })
}

/// Reads the CPU's counter of time. If the clock counts instructions, one unit is one instruction on x86-64 and 16 on
/// arm64.
pub fn counter() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        let (low, high): (u32, u32);
        // SAFETY: it reads a counter, and stays between the accesses around it.
        unsafe { asm!("rdtsc", out("eax") low, out("edx") high, options(nostack)) };
        u64::from(high) << 32 | u64::from(low)
    }
    #[cfg(target_arch = "aarch64")]
    {
        let count: u64;
        // SAFETY: as above.
        unsafe { asm!("mrs {}, cntvct_el0", out(reg) count, options(nostack)) };
        count
    }
}

/// Returns the time of the monotonic clock: seconds and nanoseconds.
pub fn monotonic_clock() -> [usize; 2] {
    let mut now = [0; 2];
    let address = now.as_mut_ptr() as usize;
    // SAFETY: `now` is a `struct timespec`.
    unsafe {
        call(
            number::CLOCK_GETTIME,
            [CLOCK_MONOTONIC, address, 0, 0, 0, 0],
        )
    };
    now
}

/// Makes a timer of a clock. The timer ends when this process ends or becomes another program.
pub fn make_timer(clock: usize) -> Option<usize> {
    const TFD_CLOEXEC: usize = 0o2_000_000;
    let arguments = [clock, TFD_CLOEXEC, 0, 0, 0, 0];
    // SAFETY: the call takes only numbers.
    result(unsafe { call(number::TIMERFD_CREATE, arguments) }).ok()
}

/// Sets a timer to this time; 0 disarms it.
pub fn set_timer(timer: usize, [seconds, nanoseconds]: [usize; 2]) {
    const TFD_TIMER_ABSTIME: usize = 1;
    // `struct itimerspec`: no interval, and the time.
    let time = [0, 0, seconds, nanoseconds];
    let arguments = [timer, TFD_TIMER_ABSTIME, time.as_ptr() as usize, 0, 0, 0];
    // SAFETY: the call only reads `time`.
    unsafe { call(number::TIMERFD_SETTIME, arguments) };
}

/// Makes this thread run on one CPU from now on. False if the machine does not have that CPU.
pub fn run_on(cpu: usize) -> bool {
    set_affinity(1 << cpu).is_ok()
}

/// Lets this thread run on any CPU again.
pub fn run_anywhere() {
    let _ = set_affinity(usize::MAX);
}

fn set_affinity(mask: usize) -> Result<usize, u32> {
    let arguments = [0, size_of_val(&mask), &raw const mask as usize, 0, 0, 0];
    // SAFETY: the mask has this size. 0 means this thread.
    result(unsafe { call(number::SCHED_SETAFFINITY, arguments) })
}

/// Sleeps until a time of the monotonic clock.
pub fn sleep_until(time: [usize; 2]) {
    const TIMER_ABSTIME: usize = 1;
    let address = time.as_ptr() as usize;
    let arguments = [CLOCK_MONOTONIC, TIMER_ABSTIME, address, 0, 0, 0];
    // SAFETY: `time` is a `struct timespec`.
    unsafe { call(number::CLOCK_NANOSLEEP, arguments) };
}

/// Sleeps for less than a second.
pub fn sleep(nanoseconds: usize) {
    let time = [0, nanoseconds];
    // SAFETY: `time` is a `struct timespec`.
    unsafe {
        call(
            number::CLOCK_NANOSLEEP,
            [CLOCK_MONOTONIC, 0, time.as_ptr() as usize, 0, 0, 0],
        )
    };
}

/// Runs a program to its end.
pub fn run_program(path: &Path, arguments: &[&Path]) {
    const SIGCHLD: usize = 17;
    // SAFETY: it makes a copy of this process, with a copy of its memory.
    match unsafe { call(number::CLONE, [SIGCHLD, 0, 0, 0, 0, 0]) } {
        0 => {
            execute(path, arguments);
            die("cannot run a program");
        }
        child => {
            // SAFETY: it waits for the child, and does not ask for its status.
            unsafe { call(number::WAIT4, [child.cast_unsigned(), 0, 0, 0, 0, 0]) };
        }
    }
}

/// Becomes another program. Returns only on failure, with the number of the error.
pub fn become_program(path: &Path) -> u32 {
    execute(path, &[path])
}

fn execute(path: &Path, arguments: &[&Path]) -> u32 {
    const MOST: usize = 8;
    let mut words = [0_usize; MOST];
    for (word, argument) in words[..MOST - 1].iter_mut().zip(arguments) {
        *word = argument.address();
    }
    // The environment that the kernel gives its first program.
    let (home, term) = (Path::of(&["HOME=/"]), Path::of(&["TERM=linux"]));
    let environment = [home.address(), term.address(), 0];
    // SAFETY: both lists end with a null pointer, and each string with a zero byte.
    let returned = unsafe {
        call(
            number::EXECVE,
            [
                path.address(),
                words.as_ptr() as usize,
                environment.as_ptr() as usize,
                0,
                0,
                0,
            ],
        )
    };
    result(returned).err().unwrap_or(0)
}
