use super::*;
use crate::virtio::answer_double::{DATA, RAM, answer, answer_now, bytes, memory};
use kit::wait::await_that;
use std::io::{PipeWriter, Read, Seek, Write};
use vmbell_virtqueue::Buffer;

fn console() -> (Console, PipeWriter, File) {
    let (input, keys) = io::pipe().unwrap();
    let said = tempfile::tempfile().unwrap();
    let output = Output::new(said.try_clone().unwrap().into()).unwrap();
    let console = Console::new(input.into(), &output).unwrap();
    (console, keys, said)
}

/// Everything that the driver has sent.
fn said(console: &Console, mut file: File) -> Vec<u8> {
    assert_eq!(console.output.drain(|| true), 0);
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn what_the_driver_sends_is_written_in_order() {
    let (console, _keys, file) = console();
    let memory = memory();
    let pieces = [Buffer::new(DATA, 5), Buffer::new(DATA + 0x100, 4)];
    for (piece, text) in pieces.iter().zip([&b"hello"[..], b" you"]) {
        vm_memory::Bytes::write_slice(&memory, text, vm_memory::GuestAddress(piece.addr)).unwrap();
    }
    assert_eq!(answer(&console, 1, &memory, &pieces, &[]).unwrap(), 0);
    assert_eq!(said(&console, file), b"hello you");
}

#[test]
fn input_waits_for_buffers_and_buffers_wait_for_input() {
    let (console, mut keys, _) = console();
    let memory = memory();
    let receive = |room| {
        let buffer = [Buffer::new(DATA, room)];
        answer_now(&console, RECEIVE, &memory, &[], &buffer).unwrap()
    };
    assert_eq!((receive(3), receive(0)), (None, Some(0)));
    keys.write_all(b"typed").unwrap();
    for (room, written) in [(3, 3), (0, 0), (100, 2)] {
        assert_eq!(receive(room), Some(written));
    }
    assert_eq!(bytes(&memory, DATA, 4), b"edp\0");
    assert_eq!(receive(100), None);
    drop(keys);
    assert_eq!(receive(100), None, "at its end");
}

#[test]
fn output_waits_for_a_reader_that_stalls_and_none_of_it_is_lost() {
    let (input, _keys) = io::pipe().unwrap();
    let (mut reader, writer) = io::pipe().unwrap();
    let output = Output::new(writer.into()).unwrap();
    let console = Console::new(input.into(), &output).unwrap();
    let memory = memory();
    let buffer = [Buffer::new(DATA, 0x1000)];
    let send = || answer_now(&console, SEND, &memory, &buffer, &[]).unwrap();
    let mut sent = 0;
    while send() == Some(0) {
        sent += 1;
    }
    let has_room = || rustix::io::read(&*console.room, &mut [0; 8]).is_ok();
    assert!(!has_room());
    let mut bytes = vec![0; sent * 0x1000];
    reader.read_exact(&mut bytes).unwrap();
    await_that("room", has_room);
    assert_eq!(send(), Some(0));
}

#[test]
fn buffer_of_gigabytes_is_cut() {
    let (console, _keys, file) = console();
    let memory = memory();
    let all = u32::try_from(RAM).unwrap();
    let pieces: Vec<_> = (0..7).map(|_| Buffer::new(0, all)).collect();
    assert_eq!(answer(&console, 1, &memory, &pieces, &[]).unwrap(), 0);
    assert_eq!(said(&console, file).len(), MOST.min(7 * RAM));
}

#[test]
fn buffer_outside_of_ram_is_an_error() {
    let (console, _keys, _) = console();
    let outside = [Buffer::new(RAM as u64, 1)];
    let error = answer(&console, 1, &memory(), &outside, &[]).unwrap_err();
    assert!(matches!(error, HandlerError::Outside { .. }), "{error}");
}

#[test]
fn who_feeds_the_input_waits_until_the_driver_has_settled() {
    let (console, _keys, _) = console();
    let ready = console.ready();
    let waited = std::thread::spawn(move || ready.wait());
    std::thread::sleep(SETTLED);
    assert!(!waited.is_finished());
    console.accepted(0);
    waited.join().unwrap();
}

#[test]
fn driver_has_settled_some_time_after_it_was_ready() {
    let since = Instant::now();
    assert_eq!(left(None, since), SETTLED);
    assert_eq!(left(Some(since), since), SETTLED);
    assert_eq!(left(Some(since), since + SETTLED / 4), SETTLED / 4 * 3);
    assert_eq!(left(Some(since), since + SETTLED), Duration::ZERO);
    assert_eq!(left(Some(since), since + 2 * SETTLED), Duration::ZERO);
}
