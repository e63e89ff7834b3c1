use vm_memory::{Bytes, GuestAddress};

use super::*;
use crate::virtio::answer_double::{DATA, RAM, answer, bytes, memory};
use vmbell::virtqueue::Buffer;

const ADDRESS: Mac = Mac([0x52, 0x54, 0, 1, 2, 3]);

fn received(other: &std::os::unix::net::UnixDatagram) -> Option<Vec<u8>> {
    other.set_nonblocking(true).unwrap();
    let mut packet = vec![0; 4096];
    let len = other.recv(&mut packet).ok()?;
    packet.truncate(len);
    Some(packet)
}

#[test]
fn packet_that_is_sent_arrives_behind_an_empty_header() {
    let (tap, other) = Tap::double();
    let net = Net::new(tap, ADDRESS, Offloads::Off);
    let memory = memory();
    // A header that asks for offloads, and a packet in two pieces.
    memory
        .write_slice(&[0xff; HEADER], GuestAddress(DATA))
        .unwrap();
    memory
        .write_slice(b"packet", GuestAddress(DATA + 0x1000))
        .unwrap();
    let pieces = [Buffer::new(DATA, 12), Buffer::new(DATA + 0x1000, 6)];
    assert_eq!(answer(&net, 1, &memory, &pieces, &[]).unwrap(), 0);
    let packet = [&[0; HEADER][..], b"packet"].concat();
    assert_eq!(received(&other), Some(packet));
}

#[test]
fn header_reaches_the_tap_once_offloads_are_accepted() {
    let (tap, other) = Tap::double();
    let net = Net::new(tap, ADDRESS, Offloads::On);
    assert_eq!(net.features() & 3, 3, "checksums in both directions");
    let memory = memory();
    let header = [1, 0, 0, 0, 0, 0, 34, 0, 6, 0, 0, 0];
    memory.write_slice(&header, GuestAddress(DATA)).unwrap();
    let packet = [Buffer::new(DATA, 70)];
    for (accepted, arrives) in [(0, [0; HEADER]), (1, header), (0, [0; HEADER])] {
        net.accepted(accepted);
        answer(&net, 1, &memory, &packet, &[]).unwrap();
        assert_eq!(received(&other).unwrap()[..HEADER], arrives);
    }
}

#[test]
fn tap_is_asked_for_what_the_driver_takes_and_for_nothing_without_checksums() {
    let (guest_csum, tso4, tso6, ecn) = (1 << 1, 1 << 7, 1 << 8, 1 << 9);
    assert_eq!(offload::flags(0), 0);
    assert_eq!(offload::flags(tso4 | tso6 | ecn), 0);
    assert_eq!(offload::flags(guest_csum | ecn), 1);
    assert_eq!(offload::flags(guest_csum | tso6), 1 | 4);
    assert_eq!(offload::flags(guest_csum | tso4 | tso6 | ecn), 15);
}

#[test]
fn what_is_no_packet_is_not_sent() {
    let (tap, other) = Tap::double();
    let net = Net::new(tap, ADDRESS, Offloads::Off);
    let memory = memory();
    for len in [0, 1, 12, 65_570] {
        let buffer = [Buffer::new(DATA, len)];
        assert_eq!(answer(&net, 1, &memory, &buffer, &[]).unwrap(), 0);
    }
    assert_eq!(received(&other), None);
    let outside = [Buffer::new(RAM as u64, 100)];
    let error = answer(&net, 1, &memory, &outside, &[]).unwrap_err();
    assert!(matches!(error, HandlerError::Outside { .. }), "{error}");
}

#[test]
fn buffers_wait_until_a_packet_arrives() {
    let (tap, other) = Tap::double();
    let net = Net::new(tap, ADDRESS, Offloads::Off);
    assert!(!net.is_ready(RECEIVE) && net.is_ready(1));
    let sent = [&[0; HEADER][..], b"from the host"].concat();
    other.send(&sent).unwrap();
    assert!(net.is_ready(RECEIVE) && net.is_ready(RECEIVE), "it is kept");
    let memory = memory();
    let pieces = [Buffer::new(DATA, 12), Buffer::new(DATA + 0x1000, 1600)];
    let len = u32::try_from(sent.len()).unwrap();
    assert_eq!(answer(&net, RECEIVE, &memory, &[], &pieces).unwrap(), len);
    assert_eq!(
        bytes(&memory, DATA, HEADER),
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]
    );
    assert_eq!(bytes(&memory, DATA + 0x1000, 13), b"from the host");
    assert!(!net.is_ready(RECEIVE));
}

#[test]
fn packet_that_is_longer_than_its_buffer_is_lost_and_the_next_one_is_not() {
    let (tap, other) = Tap::double();
    let net = Net::new(tap, ADDRESS, Offloads::Off);
    let memory = memory();
    for (packet, written) in [(vec![7; 200], 0), (vec![8; 60], 60)] {
        other.send(&packet).unwrap();
        assert!(net.is_ready(RECEIVE));
        let buffer = [Buffer::new(DATA, 100)];
        assert_eq!(
            answer(&net, RECEIVE, &memory, &[], &buffer).unwrap(),
            written
        );
    }
    assert_eq!(bytes(&memory, DATA, 10), [8; 10]);
}

#[test]
fn configuration_has_the_address_and_the_link() {
    let (tap, _other) = Tap::double();
    let net = Net::new(tap, ADDRESS, Offloads::Off);
    assert_eq!(net.config(), [0x52, 0x54, 0, 1, 2, 3, 1, 0]);
    assert_eq!(net.features(), 1 << 5 | 1 << 16);
}

#[test]
fn addresses_are_read_as_they_are_written_and_others_are_refused() {
    assert_eq!("52:54:00:01:02:03".parse(), Ok(ADDRESS));
    assert_eq!(ADDRESS.to_string().parse(), Ok(ADDRESS));
    assert_ne!(Mac::of("tap0"), Mac::of("tap1"));
    assert_eq!(Mac::of("tap0").to_string().parse(), Ok(Mac::of("tap0")));
    for wrong in [
        "",
        "52:54:00:01:02",
        "52:54:00:01:02:03:04",
        "52:54:00:01:02:3",
        "52:54:00:01:02:+3",
        "53:54:00:01:02:03",
        "00:00:00:00:00:00",
        "52-54-00-01-02-03",
    ] {
        assert_eq!(wrong.parse::<Mac>(), Err(MacError), "{wrong}");
    }
}

#[test]
fn names_that_no_interface_can_have_are_refused_before_anything_is_opened() {
    for name in ["", "a/b", "a b", "sixteen-letters.", "a\0b"] {
        let error = Tap::open(name).unwrap_err();
        assert!(matches!(error, TapError::Name { .. }), "{name}: {error}");
    }
}
