//! The notifications of a vhost-user device: kick and call are eventfds, which messages can replace.
//!
//! Until the back end has handled the message, it signals the old call fd and sleeps for the old kick fd. The front end
//! knows that the message is handled after a reply (`VHOST_USER_PROTOCOL_F_REPLY_ACK`), or after the answer to any
//! later message.

use super::Word;
use crate::explorer::Scenario;

/// Bits of the front end's word: two call fds and the reply.
const REPLY: u64 = 1 << 2;
/// Bits of the back end's word: two kick fds and the message.
const MESSAGE: u64 = 1 << 2;
const CALL: u64 = 1 << 3;
const SECOND: u64 = 1 << 4;

/// Kick and call of one queue, with two eventfds for each. The first eventfds are in use at the start.
#[derive(Clone, Copy, Debug)]
pub struct VhostUser {
    front: Word,
    back: Word,
}

/// A front end's message to a back end, with the number of the new fd: 0 or 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// `VHOST_USER_SET_VRING_KICK`.
    SetKick(u8),
    /// `VHOST_USER_SET_VRING_CALL`.
    SetCall(u8),
}

impl Scenario {
    /// The notifications of a vhost-user device.
    pub fn vhost_user(&mut self) -> VhostUser {
        let front = self.word("front end", &["call fd 0", "call fd 1", "reply"]);
        let bits = ["kick fd 0", "kick fd 1", "message", "(call)", "(fd 1)"];
        let back = self.word("back end", &bits);
        VhostUser { front, back }
    }
}

impl VhostUser {
    /// The front end, or the guest through an ioeventfd, notifies the back end.
    pub fn kick(&self, fd: u8) {
        self.back.update(|bits| bits | 1 << fd);
    }

    /// The front end sends a message. The back end must have handled the previous message.
    pub fn send(&self, message: Message) {
        let (fd, call) = match message {
            Message::SetKick(fd) => (fd, 0),
            Message::SetCall(fd) => (fd, CALL),
        };
        let second = if fd == 0 { 0 } else { SECOND };
        self.back.update(|bits| bits | MESSAGE | call | second);
    }

    /// The front end sleeps until the back end replies.
    pub fn wait_for_reply(&self) {
        self.front.wait(REPLY, |bits| bits & !REPLY);
    }

    /// The front end, or the driver through an irqfd, sleeps until this call fd is signalled.
    pub fn wait_for_call(&self, fd: u8) {
        self.front.wait(1 << fd, |bits| bits & !(1 << fd));
    }

    /// Takes the signal of a call fd. True if there was one.
    pub fn take_call(&self, fd: u8) -> bool {
        self.front.update(|bits| bits & !(1 << fd)) & 1 << fd != 0
    }

    /// The back end sleeps until this kick fd is signalled or a message comes. Returns whether it was kicked, and
    /// the message.
    pub fn wait(&self, kick: u8) -> (bool, Option<Message>) {
        let taken = 1 << kick | MESSAGE | CALL | SECOND;
        let bits = self.back.wait(1 << kick | MESSAGE, |bits| bits & !taken);
        let fd = u8::from(bits & SECOND != 0);
        let message = match bits & (MESSAGE | CALL) {
            MESSAGE => Some(Message::SetKick(fd)),
            0 => None,
            _ => Some(Message::SetCall(fd)),
        };
        (bits & 1 << kick != 0, message)
    }

    /// The back end replies to a message.
    pub fn reply(&self) {
        self.front.update(|bits| bits | REPLY);
    }

    /// The back end notifies the driver.
    pub fn call(&self, fd: u8) {
        self.front.update(|bits| bits | 1 << fd);
    }
}
