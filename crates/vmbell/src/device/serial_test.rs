use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

const DATA: u64 = 0;
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
    let serial = Serial::new(paper.clone(), |error| panic!("{error}"));
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
    let serial = Serial::new(paper.clone(), |error| panic!("{error}"));
    serial.write(LINE_CONTROL, &[0x80]);
    serial.write(DATA, &[1]);
    serial.write(LINE_CONTROL, &[0x03]);
    serial.write(DATA, b"x");
    assert_eq!(*paper.0.lock().unwrap(), b"x");
}

#[test]
fn wide_accesses_and_far_offsets_are_nobodys() {
    let paper = Paper::default();
    let serial = Serial::new(paper.clone(), |error| panic!("{error}"));
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
    let serial = Serial::new(Full, move |error| {
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        theirs.fetch_add(1, Ordering::Relaxed);
    });
    serial.write(DATA, b"x");
    assert_eq!(lost.load(Ordering::Relaxed), 1);
}
