//! libkrun, a VMM that is a library: a process of this program loads it and becomes the VMM.
//!
//! The functions are declared in libkrun's `include/libkrun.h`. The image prints to a serial port, which replaces the
//! implicit console; libkrun has that function since September 2025.
#![allow(unsafe_code, reason = "functions of a library that the user names")]

use std::ffi::{CString, OsStr, c_char, c_int};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;

use anyhow::{Context, Result, bail};
use clap::Args;
use libloading::Library;

/// The library's name.
pub(super) const LIBRARY: &str = "libkrun.so.1";
/// The program that loads libkrun: this program.
pub(super) const LOADER: [&str; 4] = ["/proc/self/exe", "bench", "vmms", "boot-by-libkrun"];
/// The folders into which distributions and `make install` put the library.
const FOLDERS: [&str; 5] = [
    "/usr/local/lib64",
    "/usr/local/lib",
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib",
];
/// `KRUN_KERNEL_FORMAT_ELF`.
const ELF: u32 = 1;

/// A boot by libkrun.
#[derive(Args, Debug)]
pub(super) struct LibkrunArgs {
    /// The path of libkrun
    library: PathBuf,
    /// Boot this ELF, with a command line
    image: PathBuf,
    #[arg(long)]
    cmdline: String,
    #[arg(long)]
    cpus: u8,
    /// Memory in MiB
    #[arg(long)]
    memory: u32,
    #[arg(long)]
    disk: Option<PathBuf>,
}

/// The library's path: the user's, or that on this host.
pub(super) fn find(named: Option<&str>) -> Result<PathBuf, String> {
    if let Some(named) = named {
        let path = Path::new(named);
        return match path.is_file() {
            true => Ok(path.to_path_buf()),
            false => Err(format!("there is no file {named}")),
        };
    }
    let paths = FOLDERS.map(|folder| Path::new(folder).join(LIBRARY));
    let found = paths.into_iter().find(|path| path.is_file());
    found.ok_or_else(|| format!("there is no {LIBRARY} in {}", FOLDERS.join(", ")))
}

/// Makes this process the VMM. The process ends with the guest.
pub(super) fn boot(args: &LibkrunArgs) -> Result<()> {
    let text = |text: &OsStr| CString::new(text.as_bytes());
    let image = text(args.image.as_os_str()).context("the image's path")?;
    let cmdline = CString::new(args.cmdline.as_str()).context("the command line")?;
    let disk = args.disk.as_ref().map(|disk| text(disk.as_os_str()));
    let disk = disk.transpose().context("the disk's path")?;

    // SAFETY: the file is what the user named as libkrun. What its initializers do is up to it, as with any program
    // that is run.
    let library = unsafe { Library::new(&args.library) };
    let krun = Krun(library.with_context(|| format!("cannot load {}", args.library.display()))?);
    let context = krun.call("krun_create_ctx", |create: extern "C" fn() -> i32| create())?;
    let context = u32::try_from(context).context("krun_create_ctx returned no context")?;
    type SetConfig = extern "C" fn(u32, u8, u32) -> i32;
    krun.call("krun_set_vm_config", |set: SetConfig| {
        set(context, args.cpus, args.memory)
    })?;
    type OfContext = extern "C" fn(u32) -> i32;
    krun.call("krun_disable_implicit_console", |disable: OfContext| {
        disable(context)
    })?;
    type AddSerial = extern "C" fn(u32, c_int, c_int) -> i32;
    krun.call("krun_add_serial_console_default", |add: AddSerial| {
        add(context, 0, 1)
    })?;
    if let Some(disk) = &disk {
        type AddDisk = unsafe extern "C" fn(u32, *const c_char, *const c_char, bool) -> i32;
        // SAFETY: libkrun copies the strings, and both live until it returns.
        let add = |add: AddDisk| unsafe { add(context, c"disk".as_ptr(), disk.as_ptr(), false) };
        krun.call("krun_add_disk", add)?;
    }
    type SetKernel =
        unsafe extern "C" fn(u32, *const c_char, u32, *const c_char, *const c_char) -> i32;
    // SAFETY: libkrun copies the strings, and both live until it returns. No initrd is a null pointer.
    let set = |set: SetKernel| unsafe {
        set(context, image.as_ptr(), ELF, ptr::null(), cmdline.as_ptr())
    };
    krun.call("krun_set_kernel", set)?;
    krun.call("krun_start_enter", |enter: OfContext| enter(context))?;
    bail!("krun_start_enter returned")
}

/// libkrun, loaded.
struct Krun(Library);

impl Krun {
    /// Calls a function, which returns a negative error number on failure.
    fn call<F: Copy>(&self, name: &str, call: impl FnOnce(F) -> i32) -> Result<i32> {
        // SAFETY: `F` is the type of this function in libkrun.h. The library stays loaded for as long as `self` lives.
        let function = unsafe { self.0.get::<F>(name) };
        let function = function.with_context(|| format!("this libkrun has no {name}"))?;
        match call(*function) {
            error @ ..0 => Err(io::Error::from_raw_os_error(error.saturating_neg()))
                .with_context(|| format!("{name} failed")),
            result => Ok(result),
        }
    }
}

#[cfg(test)]
#[path = "libkrun_test.rs"]
mod tests;
