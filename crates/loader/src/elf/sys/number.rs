//! The numbers of the system calls on each architecture.

#[cfg(target_arch = "aarch64")]
pub use aarch64::*;
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    pub const READ: usize = 0;
    pub const WRITE: usize = 1;
    pub const CLOSE: usize = 3;
    pub const MMAP: usize = 9;
    pub const IOCTL: usize = 16;
    pub const GETPID: usize = 39;
    pub const SOCKET: usize = 41;
    pub const CONNECT: usize = 42;
    pub const CLONE: usize = 56;
    pub const EXECVE: usize = 59;
    pub const WAIT4: usize = 61;
    pub const FCHMOD: usize = 91;
    pub const SCHED_SETAFFINITY: usize = 203;
    pub const CLOCK_NANOSLEEP: usize = 230;
    pub const MOUNT: usize = 165;
    pub const GETDENTS64: usize = 217;
    pub const CLOCK_SETTIME: usize = 227;
    pub const CLOCK_GETTIME: usize = 228;
    pub const TIMERFD_CREATE: usize = 283;
    pub const TIMERFD_SETTIME: usize = 286;
    pub const EXIT_GROUP: usize = 231;
    pub const OPENAT: usize = 257;
    pub const MKDIRAT: usize = 258;
    pub const MKNODAT: usize = 259;
    pub const SYMLINKAT: usize = 266;
    pub const FINIT_MODULE: usize = 313;
}

#[cfg(target_arch = "aarch64")]
mod aarch64 {
    pub const READ: usize = 63;
    pub const WRITE: usize = 64;
    pub const CLOSE: usize = 57;
    pub const MMAP: usize = 222;
    pub const IOCTL: usize = 29;
    pub const GETPID: usize = 172;
    pub const SOCKET: usize = 198;
    pub const CONNECT: usize = 203;
    pub const CLONE: usize = 220;
    pub const EXECVE: usize = 221;
    pub const WAIT4: usize = 260;
    pub const FCHMOD: usize = 52;
    pub const SCHED_SETAFFINITY: usize = 122;
    pub const CLOCK_NANOSLEEP: usize = 115;
    pub const MOUNT: usize = 40;
    pub const GETDENTS64: usize = 61;
    pub const CLOCK_SETTIME: usize = 112;
    pub const CLOCK_GETTIME: usize = 113;
    pub const TIMERFD_CREATE: usize = 85;
    pub const TIMERFD_SETTIME: usize = 86;
    pub const EXIT_GROUP: usize = 94;
    pub const OPENAT: usize = 56;
    pub const MKDIRAT: usize = 34;
    pub const MKNODAT: usize = 33;
    pub const SYMLINKAT: usize = 36;
    pub const FINIT_MODULE: usize = 273;
}
