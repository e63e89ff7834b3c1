use super::*;

/// A library with some of libkrun's functions, which print their arguments.
const DOUBLE: &str = r#"
use std::ffi::{CStr, c_char};
use std::io::Write;

unsafe fn text(text: *const c_char) -> String {
    if text.is_null() { "none".into() } else { unsafe { CStr::from_ptr(text) }.to_str().unwrap().into() }
}
fn say(line: String) -> i32 {
    std::fs::OpenOptions::new().append(true).create(true).open(LOG).unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
    0
}
#[unsafe(no_mangle)]
extern "C" fn krun_create_ctx() -> i32 { 7 }
#[unsafe(no_mangle)]
extern "C" fn krun_set_vm_config(ctx: u32, cpus: u8, ram: u32) -> i32 { say(format!("{ctx}: {cpus} CPUs, {ram} MiB")) }
#[unsafe(no_mangle)]
extern "C" fn krun_disable_implicit_console(ctx: u32) -> i32 { say(format!("{ctx}: no console")) }
#[unsafe(no_mangle)]
extern "C" fn krun_add_serial_console_default(ctx: u32, from: i32, to: i32) -> i32 { say(format!("{ctx}: serial {from} {to}")) }
#[unsafe(no_mangle)]
unsafe extern "C" fn krun_add_disk(ctx: u32, id: *const c_char, path: *const c_char, read_only: bool) -> i32 {
    say(format!("{ctx}: {} {} {read_only}", unsafe { text(id) }, unsafe { text(path) }))
}
#[unsafe(no_mangle)]
unsafe extern "C" fn krun_set_kernel(ctx: u32, path: *const c_char, format: u32, initrd: *const c_char, cmdline: *const c_char) -> i32 {
    let [path, initrd, cmdline] = [path, initrd, cmdline].map(|each| unsafe { text(each) });
    say(format!("{ctx}: {path} {format} {initrd} '{cmdline}'"))
}
"#;

/// Builds the double with the rest of its source, and returns it and the file that it writes to.
fn double(folder: &Path, rest: &str) -> (PathBuf, PathBuf) {
    let (log, source) = (folder.join("log"), folder.join("double.rs"));
    let library = folder.join("libkrun.so");
    let text = format!("const LOG: &str = {log:?};\n{DOUBLE}{rest}");
    std::fs::write(&source, text).unwrap();
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let built = std::process::Command::new(rustc)
        .args(["--edition=2024", "--crate-type=cdylib", "-o"])
        .args([&library, &source])
        .status();
    assert!(built.unwrap().success());
    (library, log)
}

fn args(library: PathBuf) -> LibkrunArgs {
    LibkrunArgs {
        library,
        image: "/i".into(),
        cmdline: "ops=1 batches=2".to_owned(),
        cpus: 2,
        memory: 64,
        disk: Some("/d".into()),
    }
}

#[test]
fn the_library_gets_the_vm_and_is_entered_last() {
    let folder = tempfile::tempdir().unwrap();
    let entered = r#"
#[unsafe(no_mangle)]
extern "C" fn krun_start_enter(ctx: u32) -> i32 { say(format!("{ctx}: enter")); -22 }
"#;
    let (library, log) = double(folder.path(), entered);
    let error = boot(&args(library)).unwrap_err();
    assert_eq!(
        format!("{error:#}"),
        "krun_start_enter failed: Invalid argument (os error 22)"
    );
    assert_eq!(
        std::fs::read_to_string(log).unwrap(),
        "7: 2 CPUs, 64 MiB\n7: no console\n7: serial 0 1\n7: disk /d false\n\
         7: /i 1 none 'ops=1 batches=2'\n7: enter\n"
    );
}

#[test]
fn a_library_that_is_not_libkrun_says_what_it_lacks() {
    let folder = tempfile::tempdir().unwrap();
    let (library, _) = double(folder.path(), "");
    let error = format!("{:#}", boot(&args(library)).unwrap_err());
    assert!(
        error.starts_with("this libkrun has no krun_start_enter: "),
        "{error}"
    );
    let error = format!("{:#}", boot(&args("/etc/passwd".into())).unwrap_err());
    assert!(error.starts_with("cannot load /etc/passwd: "), "{error}");
}

#[test]
fn a_library_that_is_named_is_a_file() {
    assert_eq!(
        find(Some("/nonexistent/libkrun.so")),
        Err("there is no file /nonexistent/libkrun.so".to_owned())
    );
    assert_eq!(find(Some("/etc/passwd")), Ok("/etc/passwd".into()));
}
