use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// How often these writes shut a machine down.
fn offs(writes: &[&[u8]]) -> u32 {
    let offs = AtomicU32::new(0);
    let port = ShutdownPort::new(|| {
        offs.fetch_add(1, Ordering::Relaxed);
    });
    writes.iter().for_each(|data| port.write(0, data));
    offs.load(Ordering::Relaxed)
}

#[test]
fn word_switches_off_however_it_is_cut() {
    let letters: Vec<&[u8]> = WORD.chunks(1).collect();
    assert_eq!(offs(&letters), 1);
    assert_eq!(offs(&[b"Shut", b"down"]), 1);
    assert_eq!(offs(&[b"ShutShutdown"]), 1);
    assert_eq!(offs(&[b"Shutdow", b"nShutdown"]), 2);
}

#[test]
fn anything_else_does_not() {
    assert_eq!(offs(&[b"Shutdow", b"N"]), 0);
    assert_eq!(offs(&[b"Suhtdown", b"hutdown"]), 0);
    assert_eq!(offs(&[]), 0);
}
