//! QEMU's monitor: the few commands of QMP (QEMU `docs/interop/qmp-spec.rst`) with which a machine is saved and restored. It
//! is a socket pair, like the channels. The thread that saves a machine runs this.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::{Value, json};

use super::BootError;

/// How often it is asked whether the state is written.
const PAUSE: Duration = Duration::from_millis(5);
/// How long an answer may take: only a QEMU that hangs takes so long.
const ANSWER: Duration = Duration::from_secs(60);

/// The lab's end of a monitor, and QEMU's until QEMU has inherited it.
#[derive(Debug)]
pub(super) struct Monitor {
    ours: BufReader<UnixStream>,
    theirs: Option<UnixStream>,
}

impl Monitor {
    /// A monitor that waits for its QEMU.
    pub fn new() -> Result<Self, BootError> {
        let pair = || -> io::Result<_> {
            let (ours, theirs) = UnixStream::pair()?;
            fcntl_setfd(theirs.as_fd(), FdFlags::empty())?;
            Ok((ours, theirs))
        };
        let (ours, theirs) = pair().map_err(BootError::channel("make a socket pair"))?;
        Ok(Self {
            ours: BufReader::new(ours),
            theirs: Some(theirs),
        })
    }

    /// The descriptor number of QEMU's end; -1 after the hand-over.
    pub fn fd(&self) -> RawFd {
        self.theirs.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }

    /// Closes this process's copy of QEMU's end.
    pub fn handed_over(&mut self) {
        self.theirs = None;
    }

    /// Tells a QEMU that has not started yet to begin in the state of this file, which QEMU inherits. Nobody waits for its
    /// answers: the guest's report, or QEMU's end, is the result.
    pub fn restore(&mut self, state: &File) -> Result<(), BootError> {
        fcntl_setfd(state, FdFlags::empty())
            .map_err(|error| BootError::channel("pass a file to QEMU")(error.into()))?;
        let state = json!({ "uri": format!("fd:{}", state.as_raw_fd()) });
        for (command, arguments) in [
            ("qmp_capabilities", json!({})),
            ("migrate-set-capabilities", shared_is_left_out()),
            ("migrate-incoming", state),
        ] {
            self.send(command, arguments)
                .map_err(BootError::channel("write to QEMU's monitor"))?;
        }
        Ok(())
    }

    /// Waits until the guest has stopped itself, for this time at most.
    pub fn wait_for_stop(&mut self, limit: Duration) -> Result<(), BootError> {
        const ACTION: &str = "say that L1 has stopped";
        self.command(ACTION, "qmp_capabilities", json!({}))?;
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let message = self.receive(left).map_err(|error| failed(ACTION, error))?;
            if message["event"] == "STOP" {
                return Ok(());
            }
        }
    }

    /// Writes the state of the stopped machine to this file, without memory that is shared, and ends QEMU.
    pub fn save(&mut self, state: &File) -> Result<(), BootError> {
        const ACTION: &str = "write the state of L1";
        self.command(ACTION, "migrate-set-capabilities", shared_is_left_out())?;
        self.pass(state).map_err(|error| failed(ACTION, error))?;
        self.answer(ACTION)?;
        self.command(ACTION, "migrate", json!({ "uri": "fd:state" }))?;
        loop {
            let said = self.command(ACTION, "query-migrate", json!({}))?;
            match said["status"].as_str() {
                Some("completed") => break,
                Some("failed" | "cancelled") => {
                    let said = said["error-desc"].as_str().unwrap_or("it failed");
                    return Err(failed(ACTION, said));
                }
                _ => thread::sleep(PAUSE),
            }
        }
        self.command("end", "quit", json!({})).map(drop)
    }

    /// Sends a command and returns its answer.
    fn command(
        &mut self,
        action: &'static str,
        name: &str,
        arguments: Value,
    ) -> Result<Value, BootError> {
        self.send(name, arguments)
            .map_err(|error| failed(action, error))?;
        self.answer(action)
    }

    fn send(&mut self, name: &str, arguments: Value) -> io::Result<()> {
        let line = json!({ "execute": name, "arguments": arguments });
        self.ours
            .get_mut()
            .write_all(format!("{line}\n").as_bytes())
    }

    /// Sends a descriptor with the command that gives it the name `state`.
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

    /// The answer to the last command.
    fn answer(&mut self, action: &'static str) -> Result<Value, BootError> {
        let end = Instant::now() + ANSWER;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let mut message = self.receive(left).map_err(|error| failed(action, error))?;
            if let Some(error) = message.get("error") {
                let said = error["desc"].as_str().unwrap_or("it failed");
                return Err(failed(action, said));
            }
            if let Some(answer) = message.get_mut("return") {
                return Ok(answer.take());
            }
        }
    }

    /// The next message: a greeting, an answer or an event.
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

/// Memory that is shared with the host is neither saved nor restored: the file of L1's memory is its saved form.
fn shared_is_left_out() -> Value {
    json!({ "capabilities": [{ "capability": "x-ignore-shared", "state": true }] })
}

fn failed(action: &'static str, said: impl ToString) -> BootError {
    BootError::Monitor {
        action,
        said: said.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A QEMU that answers each command with the next of these lines.
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
