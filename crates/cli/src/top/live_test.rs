use std::env;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use rustix::termios::{LocalModes, tcgetattr};

use kit::terminal::{self, ENTER, LEAVE};
use kit::wait::{HANG, await_that};

use super::*;
use crate::interrupt;
use crate::top::text::tests::vm;

/// The child's task; a number means to end after that many tables.
const ROLE: &str = "VMBELL_TEST_SCREEN";

/// The child of the tests below, whose stdio is a terminal.
#[test]
fn child() {
    let Ok(role) = env::var(ROLE) else {
        return;
    };
    let interrupted = interrupt::catch().unwrap();
    let mut count = 0;
    let next = || {
        count += 1;
        assert!(role != "panic", "it panics");
        anyhow::ensure!(role != "error", "it fails");
        Ok(TopInterval {
            vms: vec![vm()],
            seconds: 1.0,
            lost: Some(count),
            ..TopInterval::default()
        })
    };
    let left = role.parse().ok();
    let mut last = None;
    match run(
        next,
        &mut last,
        Duration::from_millis(50),
        left,
        interrupted,
    ) {
        Ok(exit) => println!("end: {exit:?}, {:?}", last.map(|last| last.lost)),
        Err(error) => println!("end: {error:#}"),
    }
}

/// A terminal of 80x24 with the child, and the text that it has shown.
struct Shown {
    keyboard: File,
    terminal: Option<OwnedFd>,
    child: Child,
    text: String,
    /// The length of the text that was already waited for.
    seen: usize,
}

impl Shown {
    fn start(role: &str) -> Self {
        let (keyboard, terminal) = terminal::open();
        let end = || terminal.try_clone().unwrap();
        let name = concat!(module_path!(), "::child");
        let (_, name) = name.split_once("::").unwrap();
        // A shell starts background jobs with SIGINT ignored, including the tests; the child must not inherit that.
        let child = Command::new("env")
            .arg("--default-signal=INT,TERM,HUP")
            .arg(env::current_exe().unwrap())
            .args(["--exact", "--nocapture", name])
            .env(ROLE, role)
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .process_group(0)
            .spawn()
            .unwrap();
        Self {
            keyboard,
            terminal: Some(terminal),
            child,
            text: String::new(),
            seen: 0,
        }
    }

    /// Reads until the text appears after the text that was waited for last.
    fn until(&mut self, text: &str) {
        loop {
            if let Some(place) = self.text[self.seen..].find(text) {
                self.seen += place + text.len();
                return;
            }
            assert!(self.read(), "no {text} in {}", self.text);
        }
    }

    /// Reads more, unless the terminal is closed.
    fn read(&mut self) -> bool {
        let time = Timespec::try_from(HANG).unwrap();
        let mut fds = [PollFd::new(&self.keyboard, PollFlags::IN)];
        assert_ne!(
            poll(&mut fds, Some(&time)).unwrap(),
            0,
            "hangs: {}",
            self.text
        );
        let mut bytes = [0; 4096];
        let length = self.keyboard.read(&mut bytes).unwrap_or_default();
        self.text += &String::from_utf8_lossy(&bytes[..length]);
        length > 0
    }

    fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Whether the terminal reads lines and echoes them, as at the start.
    fn is_restored(&self) -> bool {
        let modes = tcgetattr(self.terminal.as_ref().unwrap()).unwrap();
        let before = LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        modes.local_modes.contains(before)
    }

    /// Waits until the child exits by itself, and returns what it printed on the restored terminal.
    fn end(mut self) -> (String, ExitStatus) {
        let status = self.child.wait().unwrap();
        assert!(self.is_restored());
        // Close the child's end as well.
        self.terminal = None;
        while self.read() {}
        let (_, said) = self.text.rsplit_once(LEAVE).unwrap();
        assert!(!said.contains(ENTER), "{}", self.text);
        (said.to_owned(), status)
    }
}

#[test]
fn the_screen_shows_tables_takes_keys_and_leaves_the_terminal_as_it_was() {
    let mut shown = Shown::start("keys");
    shown.until(ENTER);
    shown.until("qemu:…er-1");
    assert!(!shown.is_restored());
    shown.press("\n");
    shown.until("0xfebf1000");
    shown.press("?");
    shown.until("press any key");
    shown.press("x");
    shown.until("qemu:…er-1");
    shown.press("\x0c");
    shown.until("qemu:…er-1");
    shown.press("q");
    let (said, status) = shown.end();
    assert!(said.contains("end: Good") && status.success(), "{said}");
}

#[test]
fn a_larger_terminal_is_drawn_anew() {
    let mut shown = Shown::start("keys");
    shown.until("qemu:…er-1");
    terminal::resize(shown.terminal.as_ref().unwrap(), 120, 30);
    shown.until("qemu:web-server-1");
    shown.press("\x03");
    assert!(shown.end().0.contains("end: Good"));
}

#[test]
fn signals_end_the_screen() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut shown = Shown::start("keys");
        shown.until("qemu:…er-1");
        kill_process(shown.pid(), signal).unwrap();
        let (said, _) = shown.end();
        assert!(said.contains("end: Interrupted"), "{said}");
    }
}

#[test]
fn a_panic_and_an_error_are_shown_on_the_restored_terminal() {
    let shown = Shown::start("panic");
    let (said, status) = shown.end();
    assert!(said.contains("it panics") && !status.success(), "{said}");
    let (said, _) = Shown::start("error").end();
    assert!(said.contains("end: it fails"), "{said}");
}

#[test]
fn the_last_of_a_number_of_tables_stays_on_the_terminal() {
    let (said, status) = Shown::start("3").end();
    assert!(said.contains("vmbell top: 1 VM"), "{said}");
    assert!(said.contains("4711 qemu:…er-1"), "{said}");
    assert!(said.contains("end: Good, Some(Some(3))"), "{said}");
    assert!(status.success());
}

#[test]
fn a_suspended_screen_gives_the_terminal_back_and_comes_again() {
    let mut shown = Shown::start("keys");
    shown.until("qemu:…er-1");
    shown.press("\x1a");
    let (_, status) = waitpid(Some(shown.pid()), WaitOptions::UNTRACED)
        .unwrap()
        .unwrap();
    assert!(status.stopped(), "{status:?}");
    shown.until(LEAVE);
    assert!(shown.is_restored());
    kill_process(shown.pid(), Signal::CONT).unwrap();
    shown.until(ENTER);
    shown.until("qemu:…er-1");
    shown.press("q");
    assert!(shown.end().0.contains("end: Good"));
}

#[test]
fn a_terminal_that_is_closed_ends_the_screen() {
    let mut shown = Shown::start("keys");
    shown.until("qemu:…er-1");
    let Shown {
        keyboard,
        terminal,
        mut child,
        ..
    } = shown;
    drop((keyboard, terminal));
    await_that("the child's end", || child.try_wait().unwrap().is_some());
}
