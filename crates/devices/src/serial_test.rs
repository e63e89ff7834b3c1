use std::fs::File;
use std::io::{PipeReader, Read, Seek};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use kit::wait::await_that;

/// An output to a file, and the file.
fn on_paper() -> (Output, File) {
    let paper = tempfile::tempfile().unwrap();
    let output = Output::new(paper.try_clone().unwrap().into()).unwrap();
    (output, paper)
}

/// Everything that a port has printed.
fn printed(output: &Output, mut paper: &File) -> Vec<u8> {
    assert_eq!(output.drain(|| true), 0);
    let mut bytes = Vec::new();
    paper.rewind().unwrap();
    paper.read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn bytes_come_out_in_order_and_the_transmitter_is_empty() {
    let (output, paper) = on_paper();
    let serial = Serial::new(&output, None);
    for byte in b"hi\n" {
        assert_eq!(register(&serial, LINE_STATUS) & TRANSMITTER_EMPTY, 0x60);
        serial.write(DATA, &[*byte]);
    }
    assert_eq!(printed(&output, &paper), b"hi\n");
}

#[test]
fn divisor_is_not_printed() {
    let (output, paper) = on_paper();
    let serial = Serial::new(&output, None);
    serial.write(LINE_CONTROL, &[0x80]);
    serial.write(DATA, &[1]);
    serial.write(LINE_CONTROL, &[0x03]);
    serial.write(DATA, b"x");
    assert_eq!(printed(&output, &paper), b"x");
}

#[test]
fn wide_accesses_and_far_offsets_are_nobodys() {
    let (output, paper) = on_paper();
    let serial = Serial::new(&output, None);
    serial.write(DATA, b"ab");
    serial.write(u64::MAX, b"c");
    let mut data = [0; 2];
    serial.read(DATA, &mut data);
    assert_eq!(data, [0xff; 2]);
    serial.read(u64::MAX, &mut data[..1]);
    assert_eq!(printed(&output, &paper), b"");
}

/// A port whose reader does not read until the transmitter is busy, and how many bytes the port was given.
fn stalled(enabled: u8) -> (Arc<Serial>, Edges, PipeReader, usize) {
    let (reader, writer) = io::pipe().unwrap();
    let output = Output::new(writer.into()).unwrap();
    let edges = Edges::default();
    let serial = Serial::new(&output, Some(Box::new(edges.clone())));
    serial.write(INTERRUPT_ENABLE, &[enabled]);
    let mut sent = 0;
    while register(&serial, LINE_STATUS) & TRANSMITTER_EMPTY != 0 {
        serial.write(DATA, b"x");
        sent += 1;
    }
    (serial, edges, reader, sent)
}

#[test]
fn a_reader_that_stalls_makes_the_transmitter_busy_and_one_that_reads_gets_every_byte() {
    let (serial, _, mut reader, sent) = stalled(0);
    // A driver that has just checked the port sends as many bytes as its FIFO takes.
    (0..16).for_each(|_| serial.write(DATA, b"y"));
    let mut bytes = vec![0; sent + 16];
    reader.read_exact(&mut bytes).unwrap();
    assert_eq!(bytes.iter().filter(|byte| **byte == b'y').count(), 16);
    await_that("an empty transmitter", || {
        register(&serial, LINE_STATUS) & TRANSMITTER_EMPTY == TRANSMITTER_EMPTY
    });
}

#[test]
fn a_driver_that_waits_for_an_empty_transmitter_is_interrupted_even_while_the_divisor_is_shown() {
    for line_control in [0x03, 0x83] {
        let (serial, edges, mut reader, sent) = stalled(TRANSMITTED);
        serial.write(LINE_CONTROL, &[line_control]);
        // The earlier interrupts have been handled, and the driver has found the transmitter busy.
        register(&serial, IDENTIFICATION);
        let before = edges.0.load(Ordering::Relaxed);
        let mut bytes = vec![0; sent];
        reader.read_exact(&mut bytes).unwrap();
        await_that("an interrupt", || edges.0.load(Ordering::Relaxed) > before);
        assert_eq!(register(&serial, LINE_CONTROL), line_control);
    }
}

const DATA_READY: u8 = 1;
const IDENTIFICATION: u64 = 2;
const SCRATCH: u64 = 7;

/// A line that counts its edges.
#[derive(Clone, Debug, Default)]
struct Edges(Arc<AtomicUsize>);

impl IrqTrigger for Edges {
    fn signal(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn with_line() -> (Arc<Serial>, Edges) {
    let edges = Edges::default();
    let serial = Serial::new(&on_paper().0, Some(Box::new(edges.clone())));
    (serial, edges)
}

/// What a driver does when it opens the port.
fn open(serial: &Serial) {
    serial.write(INTERRUPT_ENABLE, &[RECEIVED]);
    serial.write(MODEM_CONTROL, &[DATA_TERMINAL_READY]);
}

fn register(serial: &Serial, offset: u64) -> u8 {
    let mut byte = [0];
    serial.read(offset, &mut byte);
    byte[0]
}

#[test]
fn input_is_read_in_order_and_raises_one_interrupt_until_it_is_served() {
    let (serial, edges) = with_line();
    open(&serial);
    serial.receive(b"a", || false);
    serial.receive(b"bc", || false);
    assert_eq!(edges.0.load(Ordering::Relaxed), 1);
    let read = [0; 3].map(|_: u8| {
        assert_eq!(register(&serial, LINE_STATUS) & DATA_READY, DATA_READY);
        register(&serial, DATA)
    });
    assert_eq!(read, *b"abc");
    assert_eq!(register(&serial, LINE_STATUS) & DATA_READY, 0);
    serial.receive(b"d", || false);
    assert_eq!(edges.0.load(Ordering::Relaxed), 2);
}

#[test]
fn input_waits_for_the_driver_and_for_room_and_none_of_it_is_lost() {
    let (serial, _) = with_line();
    let sent: Vec<u8> = (0..=255).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| serial.receive(&sent, || false));
        serial.write(MODEM_CONTROL, &[DATA_TERMINAL_READY]);
        std::thread::sleep(SETTLED);
        assert_eq!(register(&serial, LINE_STATUS) & DATA_READY, 0);
        open(&serial);
        let mut read = Vec::new();
        while read.len() < sent.len() {
            if register(&serial, LINE_STATUS) & DATA_READY != 0 {
                read.push(register(&serial, DATA));
            }
        }
        assert_eq!(read, sent);
    });
}

/// A driver that probes the port tries all interrupts, and discards what it reads.
#[test]
fn driver_gets_input_once_it_has_been_ready_for_some_time() {
    let (serial, _) = with_line();
    for _ in 0..2 {
        open(&serial);
        let mut port = serial.lock();
        let ready = port.ready.unwrap();
        assert_eq!(port.receive(b"a", ready), 0);
        assert_eq!(port.receive(b"a", ready + SETTLED / 2), 0);
        assert_eq!(port.receive(b"a", ready + SETTLED), 1);
        drop(port);
        serial.write(INTERRUPT_ENABLE, &[0]);
        assert_eq!(serial.lock().receive(b"b", ready + 9 * SETTLED), 0);
    }
}

#[test]
fn input_for_a_guest_that_reads_nothing_ends_when_it_is_told_to() {
    let (serial, _) = with_line();
    let looks = AtomicUsize::new(0);
    let told = |after| {
        looks.store(0, Ordering::Relaxed);
        serial.receive(&[0; 100], || looks.fetch_add(1, Ordering::Relaxed) > after);
    };
    told(1);
    open(&serial);
    told(3);
    serial.write(MODEM_CONTROL, &[0x10 | DATA_TERMINAL_READY]);
    told(1);
}

/// A port like `serial` with its state, as written and read.
fn copy_of(serial: &Serial) -> (Arc<Serial>, Edges) {
    let text = serde_json::to_string(&serial.save()).unwrap();
    let (copy, edges) = with_line();
    copy.restore(&serde_json::from_str(&text).unwrap()).unwrap();
    // A signal before the vCPUs are restored has no effect.
    edges.0.store(0, Ordering::Relaxed);
    (copy, edges)
}

#[test]
fn input_whose_interrupt_was_on_its_way_interrupts_the_copy_and_the_source() {
    let (serial, before) = with_line();
    open(&serial);
    serial.write(SCRATCH, &[0x5a]);
    serial.receive(b"ab", || false);
    assert_eq!(before.0.swap(0, Ordering::Relaxed), 1);
    let (copy, edges) = copy_of(&serial);
    for (port, edges) in [(&serial, before), (&copy, edges)] {
        port.resume();
        assert_eq!(edges.0.load(Ordering::Relaxed), 1);
        assert_eq!(register(port, IDENTIFICATION) & 4, 4);
        assert_eq!([register(port, DATA), register(port, DATA)], *b"ab");
        assert_eq!(register(port, SCRATCH), 0x5a);
        // The next byte interrupts again.
        port.receive(b"c", || false);
        assert_eq!(edges.0.load(Ordering::Relaxed), 2);
    }
}

#[test]
fn port_that_waits_for_no_interrupt_raises_none_when_it_goes_on() {
    let (serial, edges) = with_line();
    serial.resume();
    open(&serial);
    serial.receive(b"a", || false);
    assert_eq!(register(&serial, DATA), b'a');
    edges.0.store(0, Ordering::Relaxed);
    let (copy, of_copy) = copy_of(&serial);
    serial.resume();
    copy.resume();
    assert_eq!(
        [edges, of_copy].map(|edges| edges.0.load(Ordering::Relaxed)),
        [0, 0]
    );
}

/// The source's output may be full, and the copy's is not.
#[test]
fn copy_of_a_driver_that_waits_for_an_empty_transmitter_is_interrupted() {
    let (serial, _, _reader, _) = stalled(TRANSMITTED);
    register(&serial, IDENTIFICATION);
    let (copy, edges) = copy_of(&serial);
    copy.resume();
    assert_eq!(edges.0.load(Ordering::Relaxed), 1);
    assert_eq!(
        register(&copy, LINE_STATUS) & TRANSMITTER_EMPTY,
        TRANSMITTER_EMPTY
    );
}

#[test]
fn state_with_more_input_than_the_port_has_room_for_is_an_error() {
    let (serial, _) = with_line();
    let state = UartState {
        input: vec![0; 65],
        ..serial.save()
    };
    let error = serial.restore(&state).unwrap_err().to_string();
    assert!(error.contains("it has no room for 65 bytes"), "{error}");
}
