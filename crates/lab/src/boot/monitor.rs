//! QEMU's monitor: the few QMP commands (QEMU `docs/interop/qmp-spec.rst`) that save and restore a machine. The monitor
//! is a socket pair, like the channels. The thread that saves or restores a machine runs this.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufRead, BufReader, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::error::{LabError, LabFailure, cannot, failed};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::{Value, json};

/// How long an answer may take. Only a QEMU that hangs takes this long.
const ANSWER: Duration = Duration::from_secs(60);

/// The lab's end of a monitor, and QEMU's end until QEMU has inherited it.
#[derive(Debug)]
pub(super) struct Monitor {
    ours: BufReader<UnixStream>,
    theirs: Option<UnixStream>,
    /// Events that arrived before the answer to a command.
    events: Vec<Value>,
}

impl Monitor {
    /// Makes a monitor whose QEMU has yet to start.
    pub fn new() -> Result<Self, LabError> {
        let pair = || -> io::Result<_> {
            let (ours, theirs) = UnixStream::pair()?;
            fcntl_setfd(theirs.as_fd(), FdFlags::empty())?;
            Ok((ours, theirs))
        };
        let (ours, theirs) = pair().map_err(cannot("make", "a socket pair"))?;
        Ok(Self {
            ours: BufReader::new(ours),
            theirs: Some(theirs),
            events: Vec::new(),
        })
    }

    /// Returns the descriptor of QEMU's end; -1 after the hand-over.
    pub fn fd(&self) -> RawFd {
        self.theirs.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }

    /// Closes this process's copy of QEMU's end.
    pub fn handed_over(&mut self) {
        self.theirs = None;
    }

    /// Restores the state in this file into a QEMU that was started with `-incoming defer` and has inherited the file.
    /// The guest's report, or QEMU's end, shows the result.
    pub fn restore(&mut self, state: RawFd) -> Result<(), LabError> {
        const ACTION: &str = "restore L1";
        let state = json!({ "uri": format!("fd:{state}") });
        for (command, arguments) in [
            ("qmp_capabilities", json!({})),
            ("migrate-set-capabilities", capabilities()),
            ("migrate-incoming", state),
        ] {
            self.command(ACTION, command, arguments)?;
        }
        // QEMU also restores the fact that a panic stopped the machine.
        self.migrated(ACTION)?;
        // From here on, only a kernel panic can stop the machine, and QEMU is to end after a panic.
        self.command(ACTION, "set-action", json!({ "panic": "none" }))?;
        self.command(ACTION, "cont", json!({})).map(drop)
    }

    /// Waits until the guest has stopped itself, at most for this time.
    pub fn wait_for_stop(&mut self, limit: Duration) -> Result<(), LabError> {
        const ACTION: &str = "say that L1 has stopped";
        self.command(ACTION, "qmp_capabilities", json!({}))?;
        self.await_event(ACTION, limit, |message| message["event"] == "STOP")
            .map(drop)
    }

    /// Writes the state of the stopped machine to this file, without shared memory, and ends QEMU.
    pub fn save(&mut self, state: &File) -> Result<(), LabError> {
        const ACTION: &str = "write the state of L1";
        self.command(ACTION, "migrate-set-capabilities", capabilities())?;
        self.pass(state).map_err(|error| does_not(ACTION, error))?;
        self.answer(ACTION)?;
        self.command(ACTION, "migrate", json!({ "uri": "fd:state" }))?;
        self.migrated(ACTION)?;
        self.command("end", "quit", json!({})).map(drop)
    }

    /// Waits until the state was written or read.
    fn migrated(&mut self, action: &'static str) -> Result<(), LabError> {
        let message = self.await_event(action, ANSWER, |message| {
            let is_end = |status| ["completed", "failed", "cancelled"].contains(&status);
            message["event"] == "MIGRATION"
                && message["data"]["status"].as_str().is_some_and(is_end)
        })?;
        if message["data"]["status"] == "completed" {
            return Ok(());
        }
        let said = self.command(action, "query-migrate", json!({}))?;
        Err(does_not(
            action,
            said["error-desc"].as_str().unwrap_or("it failed"),
        ))
    }

    /// Waits for an event, at most for this time.
    fn await_event(
        &mut self,
        action: &'static str,
        limit: Duration,
        is_it: impl Fn(&Value) -> bool,
    ) -> Result<Value, LabError> {
        if let Some(index) = self.events.iter().position(&is_it) {
            return Ok(self.events.swap_remove(index));
        }
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let message = self
                .receive(left)
                .map_err(|error| does_not(action, error))?;
            if is_it(&message) {
                return Ok(message);
            }
        }
    }

    /// Sends a command and returns its answer.
    fn command(
        &mut self,
        action: &'static str,
        name: &str,
        arguments: Value,
    ) -> Result<Value, LabError> {
        self.send(name, arguments)
            .map_err(|error| does_not(action, error))?;
        self.answer(action)
    }

    fn send(&mut self, name: &str, arguments: Value) -> io::Result<()> {
        let line = json!({ "execute": name, "arguments": arguments });
        self.ours
            .get_mut()
            .write_all(format!("{line}\n").as_bytes())
    }

    /// Sends a descriptor, with the command that names it `state`.
    fn pass(&mut self, file: &File) -> io::Result<()> {
        let line = json!({ "execute": "getfd", "arguments": { "fdname": "state" } });
        let line = format!("{line}\n");
        let descriptors = [file.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        let parts = [IoSlice::new(line.as_bytes())];
        let sent = sendmsg(
            self.ours.get_ref(),
            &parts,
            &mut ancillary,
            SendFlags::empty(),
        )?;
        match sent == line.len() {
            true => Ok(()),
            false => Err(io::ErrorKind::WriteZero.into()),
        }
    }

    /// Receives the answer to the last command.
    fn answer(&mut self, action: &'static str) -> Result<Value, LabError> {
        let end = Instant::now() + ANSWER;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let mut message = self
                .receive(left)
                .map_err(|error| does_not(action, error))?;
            if let Some(error) = message.get("error") {
                let said = error["desc"].as_str().unwrap_or("it failed");
                return Err(does_not(action, said));
            }
            if let Some(answer) = message.get_mut("return") {
                return Ok(answer.take());
            }
            // An event may arrive before the answer to the command that caused it.
            self.events.push(message);
        }
    }

    /// Receives the next message: a greeting, an answer or an event.
    fn receive(&mut self, limit: Duration) -> io::Result<Value> {
        let limit = limit.max(Duration::from_millis(1));
        self.ours.get_ref().set_read_timeout(Some(limit))?;
        let mut line = String::new();
        match self.ours.read_line(&mut line)? {
            0 => Err(io::Error::other("QEMU has ended")),
            _ => Ok(serde_json::from_str(&line)?),
        }
    }
}

/// Memory shared with the host is not part of the saved state: its file is L1's saved memory. Events tell when the rest
/// was saved or restored.
fn capabilities() -> Value {
    let on = |name| json!({ "capability": name, "state": true });
    json!({ "capabilities": [on("x-ignore-shared"), on("events")] })
}

/// Makes the error of a QEMU that did not do what its monitor was told.
pub(crate) fn does_not(action: &str, said: impl Display) -> LabError {
    failed!("QEMU's monitor does not {action}: {said}").of(LabFailure::Boot)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Makes a QEMU that answers each command with the next of these lines.
    fn answering(lines: &'static [&'static str]) -> Monitor {
        let mut monitor = Monitor::new().unwrap();
        let mut theirs = monitor.theirs.take().unwrap();
        thread::spawn(move || {
            let mut commands = BufReader::new(theirs.try_clone().unwrap()).lines();
            theirs.write_all(b"{\"QMP\": {}}\n").unwrap();
            for line in lines {
                commands.next().unwrap().unwrap();
                theirs.write_all(line.as_bytes()).unwrap();
            }
        });
        monitor
    }

    #[test]
    fn a_guest_that_stops_itself_is_waited_for_among_other_events() {
        let mut monitor = answering(&[
            "{\"return\": {}}\n{\"event\": \"GUEST_PANICKED\"}\n{\"event\": \"STOP\"}\n",
        ]);
        monitor.wait_for_stop(Duration::from_secs(600)).unwrap();
    }

    #[test]
    fn a_device_without_a_state_is_named() {
        let mut monitor = answering(&[
            "{\"return\": {}}\n",
            "{\"return\": {}}\n",
            "{\"error\": {\"class\": \"GenericError\", \"desc\": \"State blocked by non-migratable device 'edu'\"}}\n",
        ]);
        let file = tempfile::tempfile().unwrap();
        let error = monitor.save(&file).unwrap_err().to_string();
        assert!(error.ends_with("non-migratable device 'edu'"), "{error}");
    }

    #[test]
    fn a_qemu_that_ends_is_noticed() {
        let mut monitor = answering(&["{\"return\": {}}\n"]);
        let error = monitor.wait_for_stop(Duration::from_secs(600)).unwrap_err();
        assert!(error.to_string().ends_with("QEMU has ended"), "{error}");
    }
}
