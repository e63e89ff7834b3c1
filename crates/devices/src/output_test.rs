use std::fs::File;
use std::io::{PipeReader, Read};
use std::sync::atomic::AtomicUsize;

use rustix::fs::{OFlags, fcntl_setfl};

use super::*;
use kit::wait::await_that;

/// Output to a pipe, and the pipe's other end.
fn piped() -> (Output, PipeReader) {
    let (reader, writer) = io::pipe().unwrap();
    (Output::new(writer.into()).unwrap(), reader)
}

fn numbered(length: usize) -> Vec<u8> {
    let byte = |at| u8::try_from(at % 251).unwrap();
    (0..length).map(byte).collect()
}

/// Waits as long as the reader reads, and checks the output meanwhile.
fn written(output: &Output) -> u64 {
    output.drain(|| output.failed().is_none())
}

#[test]
fn bytes_of_all_devices_come_out_in_order() {
    let (output, mut reader) = piped();
    let console = output.clone();
    output.push(b'a');
    assert!(console.offer(b"bc"));
    output.push(b'd');
    assert_eq!(written(&output), 0);
    drop((output, console));
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(text, "abcd");
}

#[test]
fn a_slow_reader_gets_every_byte_through_a_non_blocking_descriptor() {
    let (mut reader, writer) = io::pipe().unwrap();
    fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
    let output = Output::new(writer.into()).unwrap();
    let sent = numbered(FULL);
    assert!(output.offer(&sent));
    let read = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let mut piece = [0; 1000];
        while let Ok(length @ 1..) = reader.read(&mut piece) {
            bytes.extend_from_slice(&piece[..length]);
            std::thread::yield_now();
        }
        bytes
    });
    assert_eq!(written(&output), 0);
    drop(output);
    assert!(read.join().unwrap() == sent);
}

#[test]
fn a_reader_that_stalls_fills_the_buffer_and_one_that_goes_on_empties_it() {
    let (output, mut reader) = piped();
    let rooms = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&rooms);
    output.on_room(move || {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let mut sent = 0;
    while !output.is_full() {
        output.push(b'x');
        sent += 1;
    }
    assert!(!output.offer(b"y"));
    assert!(output.drain(|| false) > 0);
    assert_eq!(rooms.load(Ordering::Relaxed), 0);
    let mut bytes = vec![0; usize::try_from(sent).unwrap()];
    reader.read_exact(&mut bytes).unwrap();
    await_that("room", || rooms.load(Ordering::Relaxed) > 0);
    assert!(!output.is_full() && output.offer(b"y"));
}

#[test]
fn a_guest_that_ignores_a_full_buffer_loses_what_it_prints_and_it_is_counted() {
    let (output, reader) = piped();
    let all = 2 * (FULL + SPARE);
    (0..all).for_each(|_| output.push(b'x'));
    let lost = output.shared().lock().lost;
    assert!(lost > 0 && output.shared().lock().len() <= FULL + SPARE);
    let read = std::thread::spawn(move || {
        let mut file = File::from(std::os::fd::OwnedFd::from(reader));
        io::copy(&mut file, &mut io::sink()).unwrap()
    });
    assert_eq!(written(&output), lost);
    drop(output);
    assert_eq!(read.join().unwrap(), all as u64 - lost);
}

#[test]
fn a_reader_that_has_gone_is_an_error_and_nobody_waits_for_it() {
    let (output, reader) = piped();
    drop(reader);
    output.push(b'x');
    await_that("the error", || output.failed().is_some());
    assert_eq!(output.failed(), Some(io::ErrorKind::BrokenPipe));
    let more = vec![0; 100];
    for _ in 0..2 * FULL / more.len() {
        assert!(output.offer(&more), "nothing needs room any more");
    }
    assert!(!output.is_full());
    assert!(written(&output) > FULL as u64);
}
