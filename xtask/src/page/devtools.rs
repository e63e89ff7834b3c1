//! The DevTools protocol: requests and answers as JSON over one WebSocket, with events between them.

use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

/// How long an answer or an event may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection to a browser.
#[derive(Debug)]
pub(super) struct Devtools {
    socket: WebSocket<TcpStream>,
    last: u64,
    /// The events that have come so far.
    events: Vec<Value>,
}

impl Devtools {
    /// Connects to the address that the browser printed.
    pub(super) fn connect(url: &str) -> Result<Self> {
        let authority = url
            .strip_prefix("ws://")
            .and_then(|rest| rest.split('/').next())
            .with_context(|| format!("'{url}' is no address of a WebSocket"))?;
        let stream = TcpStream::connect(authority).context("cannot reach Chromium")?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let (socket, _) =
            tungstenite::client(url, stream).context("Chromium opens no WebSocket")?;
        Ok(Self {
            socket,
            last: 0,
            events: Vec::new(),
        })
    }

    /// Calls a method in a session, or of the browser, and returns what it answers.
    pub(super) fn call(
        &mut self,
        session: Option<&str>,
        method: &str,
        params: Value,
    ) -> Result<Value> {
        self.last += 1;
        let mut request = json!({"id": self.last, "method": method, "params": params});
        if let Some(session) = session {
            request["sessionId"] = session.into();
        }
        self.socket.send(Message::text(request.to_string()))?;
        loop {
            let mut message = self
                .read()
                .with_context(|| format!("no answer to {method}"))?;
            if message["id"] != self.last {
                self.events.push(message);
            } else if message["error"].is_null() {
                return Ok(message["result"].take());
            } else {
                bail!("{method}: {}", message["error"]["message"]);
            }
        }
    }

    /// Waits until an event of this name has come.
    pub(super) fn wait_for(&mut self, session: &str, method: &str) -> Result<()> {
        while !self.events(session).any(|event| event["method"] == method) {
            let event = self.read().with_context(|| format!("no {method}"))?;
            self.events.push(event);
        }
        Ok(())
    }

    /// The events of a session so far.
    pub(super) fn events(&self, session: &str) -> impl Iterator<Item = &Value> {
        let of_it = move |event: &&Value| event["sessionId"] == session;
        self.events.iter().filter(of_it)
    }

    fn read(&mut self) -> Result<Value> {
        loop {
            if let Message::Text(text) = self.socket.read()? {
                return Ok(serde_json::from_str(&text)?);
            }
        }
    }
}
