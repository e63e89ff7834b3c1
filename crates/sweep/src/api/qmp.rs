//! QEMU's machine protocol (`docs/interop/qmp-spec.rst`): JSON lines on a Unix socket, one command at a time.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::{ApiError, DeadlineStream, MOST, failed, visible};

/// The maximum number of events to skip while waiting for a command's answer.
const EVENTS: usize = 1000;

/// A connection to QEMU.
#[derive(Debug)]
pub struct Qmp {
    stream: BufReader<DeadlineStream>,
    limit: Duration,
}

impl Qmp {
    /// Connects, and ends the negotiation of capabilities. Each command may take at most `limit`. `has_ended` says
    /// whether the VMM has ended.
    pub fn connect(
        socket: &Path,
        limit: Duration,
        has_ended: impl Fn() -> bool,
    ) -> Result<Self, ApiError> {
        let stream = DeadlineStream::connect(socket, limit, has_ended)?;
        let mut qmp = Self {
            stream: BufReader::new(stream),
            limit,
        };
        const GREETING: &str = "greeting";
        let greeting = qmp.line(GREETING)?;
        if greeting.get("QMP").is_none() {
            return Err(ApiError::Invalid {
                command: GREETING.to_owned(),
            });
        }
        qmp.execute("qmp_capabilities", json!({}))?;
        Ok(qmp)
    }

    /// Runs a command, and returns its result.
    pub fn execute(&mut self, command: &str, arguments: Value) -> Result<Value, ApiError> {
        self.stream.get_mut().restart(self.limit);
        let line = json!({ "execute": command, "arguments": arguments }).to_string();
        let sent = self
            .stream
            .get_mut()
            .write_all(format!("{line}\n").as_bytes());
        sent.map_err(|source| failed(command, self.limit, source))?;
        for _ in 0..EVENTS {
            let mut answer = self.line(command)?;
            if let Some(result) = answer.get_mut("return") {
                return Ok(result.take());
            }
            if let Some(error) = answer.get("error") {
                let reason = error.get("desc").and_then(Value::as_str);
                return Err(ApiError::Refused {
                    command: command.to_owned(),
                    reason: visible(reason.unwrap_or("without a reason")),
                });
            }
            // An event.
        }
        Err(self.invalid(command))
    }

    fn invalid(&self, command: &str) -> ApiError {
        ApiError::Invalid {
            command: command.to_owned(),
        }
    }

    fn line(&mut self, command: &str) -> Result<Value, ApiError> {
        let mut line = Vec::new();
        let mut bounded = (&mut self.stream).take(MOST as u64);
        let read = bounded.read_until(b'\n', &mut line);
        read.map_err(|source| failed(command, self.limit, source))?;
        // A line without its end is too long, or its connection was closed.
        if line.last() != Some(&b'\n') {
            return Err(self.invalid(command));
        }
        serde_json::from_slice(&line).map_err(|_| self.invalid(command))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::thread;

    use super::*;

    /// The result of one command to a QEMU that sends these lines: at the connection, and after each command.
    fn answered(lines: &'static [&'static str]) -> Result<Value, ApiError> {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let listener = UnixListener::bind(&socket).unwrap();
        let server = thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut stream = BufReader::new(stream);
            for line in lines {
                stream.get_mut().write_all(line.as_bytes()).unwrap();
                // The client may have given up.
                let mut command = String::new();
                if stream.read_line(&mut command).unwrap_or(0) == 0 {
                    return;
                }
            }
        });
        let result = Qmp::connect(&socket, Duration::from_secs(60), || false)
            .and_then(|mut qmp| qmp.execute("stop", json!({})));
        server.join().unwrap();
        result
    }

    const GREETING: &str = "{\"QMP\": {}}\r\n";
    const DONE: &str = "{\"return\": {}}\r\n";

    #[test]
    fn events_before_an_answer_are_skipped() {
        let lines = &[
            GREETING,
            DONE,
            "{\"event\": \"STOP\"}\r\n{\"return\": {\"a\": 1}}\r\n",
        ];
        assert_eq!(answered(lines).unwrap(), json!({ "a": 1 }));
    }

    #[test]
    fn an_error_has_qemus_description() {
        let lines = &[
            GREETING,
            DONE,
            "{\"error\": {\"class\": \"E\", \"desc\": \"not\\nnow\"}}\r\n",
        ];
        let error = answered(lines).unwrap_err();
        assert_eq!(error.to_string(), "stop: the VMM refuses: not now");
    }

    #[test]
    fn a_program_that_is_not_qemu_is_refused() {
        for lines in [&["SSH-2.0\r\n"][..], &["{}\r\n"], &[GREETING, "[\n"]] {
            let error = answered(lines).unwrap_err();
            assert!(matches!(error, ApiError::Invalid { .. }), "{error}");
        }
    }
}
