use vm_memory::{Bytes, GuestAddress};

use super::*;
use crate::virtio::answer_double::{DATA, RAM, answer, answer_now, bytes, memory};
use crate::virtio::request::SliceList;
use vmbell_virtqueue::Buffer;

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
    let memory = memory();
    let pieces = [Buffer::new(DATA, 12), Buffer::new(DATA + 0x1000, 1600)];
    let receive = || answer_now(&net, RECEIVE, &memory, &[], &pieces).unwrap();
    assert_eq!(receive(), None);
    let sent = [&[0; HEADER][..], b"from the host"].concat();
    other.send(&sent).unwrap();
    assert_eq!(receive(), Some(u32::try_from(sent.len()).unwrap()));
    assert_eq!(
        bytes(&memory, DATA, HEADER),
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]
    );
    assert_eq!(bytes(&memory, DATA + 0x1000, 14), b"from the host\0");
    assert_eq!(receive(), None);
}

#[test]
fn packet_that_is_longer_than_its_buffer_is_lost_and_the_next_one_is_not() {
    let (tap, other) = Tap::double();
    let net = Net::new(tap, ADDRESS, Offloads::Off);
    let memory = memory();
    for (packet, room, written) in [
        (200, 100, 0),
        (101, 100, 0),
        (100, 100, 100),
        (60, 0, 0),
        (60, 11, 0),
        (13, 12, 0),
        (60, 60, 60),
    ] {
        let byte = u8::try_from(packet).unwrap();
        other.send(&vec![byte; packet]).unwrap();
        let buffer = [Buffer::new(DATA, room)];
        assert_eq!(
            answer(&net, RECEIVE, &memory, &[], &buffer).unwrap(),
            written
        );
    }
    let expected = [&[60; NUM_BUFFERS][..], &[1, 0], &[60; 48]].concat();
    assert_eq!(bytes(&memory, DATA, 60), expected);
    assert_eq!(
        bytes(&memory, DATA + 100, 4),
        [0; 4],
        "nothing outside the buffers"
    );
}

#[test]
fn packet_of_more_pieces_than_fit_on_the_stack_goes_both_ways() {
    let (tap, other) = Tap::double();
    let net = Net::new(tap, ADDRESS, Offloads::On);
    net.accepted(1);
    let memory = memory();
    let packet: Vec<u8> = (0..=251).collect();
    memory.write_slice(&packet, GuestAddress(DATA)).unwrap();
    for pieces in [1, 2, 31, 32, 33, 252] {
        // The pieces do not overlap and follow the order of the packet. Some are empty.
        let each = packet.len() / pieces;
        let last = packet.len() - each * (pieces - 1);
        let lens = std::iter::repeat_n(each, pieces - 1).chain([last]);
        let mut at = DATA;
        let mut buffers = Vec::new();
        for len in lens {
            buffers.extend([
                Buffer::new(at, u32::try_from(len).unwrap()),
                Buffer::new(0, 0),
            ]);
            at += len as u64;
        }
        let mut slices = SliceList::new(&memory);
        slices.look_up(&buffers, &[]).unwrap();
        net.send(slices.readable());
        assert_eq!(received(&other).unwrap(), packet, "{pieces}");
        slices.look_up(&[], &buffers).unwrap();
        other.send(&packet).unwrap();
        assert_eq!(net.receive(slices.writable()), Some(packet.len()));
        let expected = [&packet[..NUM_BUFFERS], &[1, 0], &packet[HEADER..]].concat();
        assert_eq!(bytes(&memory, DATA, packet.len()), expected, "{pieces}");
        memory.write_slice(&packet, GuestAddress(DATA)).unwrap();
    }
}

#[test]
fn pieces_that_overlap_get_the_bytes_that_come_last() {
    let (tap, other) = Tap::double();
    let net = Net::new(tap, ADDRESS, Offloads::Off);
    let memory = memory();
    other.send(&[9; 100]).unwrap();
    let pieces = [Buffer::new(DATA, 50), Buffer::new(DATA + 25, 50)];
    assert_eq!(answer(&net, RECEIVE, &memory, &[], &pieces).unwrap(), 100);
    assert_eq!(bytes(&memory, DATA + 25, 51), [&[9; 50][..], &[0]].concat());
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
