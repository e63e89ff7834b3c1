use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

const LINE_CONTROL: u64 = 3;
const LINE_STATUS: u64 = 5;

/// A writer whose output the test can read.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A writer that refuses everything.
struct Full;

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn bytes_come_out_in_order_and_the_transmitter_is_always_empty() {
    let paper = Paper::default();
    let serial = Serial::new(paper.clone(), None, |error| panic!("{error}"));
    for byte in b"hi\n" {
        let mut status = [0];
        serial.read(LINE_STATUS, &mut status);
        assert_eq!(status[0] & 0x20, 0x20);
        serial.write(DATA, &[*byte]);
    }
    assert_eq!(*paper.0.lock().unwrap(), b"hi\n");
}

#[test]
fn divisor_is_not_printed() {
    let paper = Paper::default();
    let serial = Serial::new(paper.clone(), None, |error| panic!("{error}"));
    serial.write(LINE_CONTROL, &[0x80]);
    serial.write(DATA, &[1]);
    serial.write(LINE_CONTROL, &[0x03]);
    serial.write(DATA, b"x");
    assert_eq!(*paper.0.lock().unwrap(), b"x");
}

#[test]
fn wide_accesses_and_far_offsets_are_nobodys() {
    let paper = Paper::default();
    let serial = Serial::new(paper.clone(), None, |error| panic!("{error}"));
    serial.write(DATA, b"ab");
    serial.write(u64::MAX, b"c");
    let mut data = [0; 2];
    serial.read(DATA, &mut data);
    assert_eq!(data, [0xff; 2]);
    serial.read(u64::MAX, &mut data[..1]);
    assert_eq!(*paper.0.lock().unwrap(), b"");
}

#[test]
fn lost_output_is_reported() {
    let lost = Arc::new(AtomicUsize::new(0));
    let theirs = Arc::clone(&lost);
    let serial = Serial::new(Full, None, move |error| {
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        theirs.fetch_add(1, Ordering::Relaxed);
    });
    serial.write(DATA, b"x");
    assert_eq!(lost.load(Ordering::Relaxed), 1);
}

const DATA_READY: u8 = 1;

/// A line that counts its edges.
#[derive(Clone, Debug, Default)]
struct Edges(Arc<AtomicUsize>);

impl IrqTrigger for Edges {
    fn signal(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn with_line() -> (Serial<Paper>, Edges) {
    let edges = Edges::default();
    let irq = Box::new(edges.clone());
    let serial = Serial::new(Paper::default(), Some(irq), |error| panic!("{error}"));
    (serial, edges)
}

/// What a driver does when the port is opened.
fn open(serial: &Serial<Paper>) {
    serial.write(INTERRUPT_ENABLE, &[RECEIVED]);
    serial.write(MODEM_CONTROL, &[DATA_TERMINAL_READY]);
}

fn register(serial: &Serial<Paper>, offset: u64) -> u8 {
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

/// A driver that looks for the port tries all interrupts, and throws away what it reads.
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
