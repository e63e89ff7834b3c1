//! A network card of the host, e1000e, whose driver is a guest: the guest echoes frames, and L1's own interface is on the
//! other end of the wire (docs/lab.md, "Devices to assign").

#![allow(unsafe_code)]

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::FromRawFd;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use vm_memory::{Bytes, GuestAddress};
use vmbell::sync::{Mutex, MutexGuard};
use vmbell_hypervisor::Hypervisor;
use vmbell_vfio::host::{Bus, Host};
use vmbell_vmm::{AssignedEvent, Boot, Image, Pc, PcConfig, Stop};

use kit::image::elf;
use testbed::HANG;
use testbed::chain;
use testbed::paper::Paper;

vmbell_guest::guest_programs! {
    /// Echoes frames.
    nic = "nic.S";
}

/// The card, and L1's interface on its wire.
const CARD: &str = "0000:00:04.0";
const INTERFACE: &std::ffi::CStr = c"eth0";
const CARD_ADDRESS: [u8; 6] = [0x52, 0x54, 0, 0, 0, 4];
const OWN_ADDRESS: [u8; 6] = [0x52, 0x54, 0, 0, 0, 5];
/// A type of frames for local experiments (IEEE 802).
const TYPE: u16 = 0x88b5;
/// How many frames the guest echoes.
const FRAMES: u32 = 64;

/// A socket for frames of [`TYPE`] on L1's interface.
fn wire() -> File {
    let protocol = i32::from(TYPE.to_be());
    // SAFETY: no pointers.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, protocol) };
    assert!(fd >= 0, "{}", io::Error::last_os_error());
    // SAFETY: a new descriptor that nothing else owns.
    let socket = unsafe { File::from_raw_fd(fd) };
    // SAFETY: a C string.
    let index = unsafe { libc::if_nametoindex(INTERFACE.as_ptr()) };
    assert!(
        index > 0,
        "no interface of L1: run this with vmbell lab --device e1000e"
    );
    // SAFETY: zeros are a valid address.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = u16::try_from(libc::AF_PACKET).unwrap();
    address.sll_protocol = TYPE.to_be();
    address.sll_ifindex = index.cast_signed();
    let len = u32::try_from(size_of::<libc::sockaddr_ll>()).unwrap();
    // SAFETY: `address` has this length and outlives the call.
    let bound = unsafe { libc::bind(fd, (&raw const address).cast(), len) };
    assert!(bound >= 0, "{}", io::Error::last_os_error());
    let limit = libc::timeval {
        tv_sec: 1,
        tv_usec: 0,
    };
    let len = u32::try_from(size_of::<libc::timeval>()).unwrap();
    let option = (&raw const limit).cast();
    // SAFETY: `limit` has this length and outlives the call.
    let set = unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, option, len) };
    assert!(set >= 0, "{}", io::Error::last_os_error());
    socket
}

/// A frame of a length that depends on its number.
fn frame(number: u32, to: [u8; 6], from: [u8; 6]) -> Vec<u8> {
    let mut frame = [&to[..], &from, &TYPE.to_be_bytes(), &number.to_be_bytes()].concat();
    let len = 60 + number as usize * 22;
    frame.resize(len.min(1514), number.to_be_bytes()[3]);
    frame
}

/// Sends all frames, and returns how many came back as they should.
fn exchange(mut socket: File) -> u32 {
    let mut good = 0;
    for number in 0..FRAMES {
        let sent = frame(number, CARD_ADDRESS, OWN_ADDRESS);
        let mut received = vec![0; 2048];
        // A frame that comes before the guest listens may be lost.
        for _ in 0..10 {
            socket.write_all(&sent).unwrap();
            if let Ok(len) = socket.read(&mut received) {
                good += u32::from(received[..len] == frame(number, OWN_ADDRESS, CARD_ADDRESS));
                break;
            }
        }
    }
    good
}

type Events = Arc<Mutex<Vec<String>>>;

/// The tests take turns with the card.
static TURN: Mutex<()> = Mutex::new(());

fn take_turn() -> MutexGuard<'static, ()> {
    TURN.lock()
}

/// Whether the card can be assigned.
fn is_ready() -> bool {
    let host = Host::system();
    let card = host.find(&[Bus::Pci], CARD).unwrap();
    host.obstacles(&card).is_empty()
}

/// Makes a PC with the card, and the list of the card's events.
fn with_card<H: Hypervisor>(hypervisor: &H) -> (Pc, Events) {
    assert!(
        is_ready(),
        "{CARD} cannot be assigned: run this with vmbell lab --device e1000e"
    );
    let pc = Pc::new(hypervisor, PcConfig::default(), &Paper::default().output).unwrap();
    let events = Events::default();
    let log = Arc::clone(&events);
    let on_event: Arc<dyn Fn(AssignedEvent) + Send + Sync> =
        Arc::new(move |event| log.lock().push(event.to_string()));
    let card = Host::system().find(&[Bus::Pci], CARD).unwrap();
    pc.assign(&card, true, &on_event).unwrap();
    (pc, events)
}

/// The card's folder and the driver's.
const FOLDER: &str = "/sys/bus/pci/devices/0000:00:04.0";
const DRIVER: &str = "/sys/bus/pci/drivers/vfio-pci";

fn card_that_the_host_wants_back_is_pulled_out<H: Hypervisor>(hypervisor: &H) {
    let _turn = take_turn();
    let (pc, events) = with_card(hypervisor);
    let image = Image::parse("nic".to_owned(), &elf(nic().code, &[])).unwrap();
    // The kernel asks for the card, and continues once it is closed.
    let host = thread::spawn(|| {
        thread::sleep(Duration::from_millis(500));
        fs::write(format!("{DRIVER}/unbind"), CARD)
    });
    let (begun, log) = (Instant::now(), Arc::clone(&events));
    let removed = move || !log.lock().is_empty() || begun.elapsed() > HANG;
    let stop = pc.run(&image, &Boot::default(), removed);
    host.join().unwrap().unwrap();
    let text = "the host wants it back, and the guest has lost it";
    assert_eq!(*events.lock(), [text]);
    assert_eq!(stop.unwrap(), Stop::Kicked, "the guest went on");
    assert!(!Path::new(FOLDER).join("driver").exists());
    fs::write(format!("{DRIVER}/bind"), CARD).unwrap();
    assert!(is_ready());
}

fn second_guest_cannot_have_the_card_of_another<H: Hypervisor>(hypervisor: &H) {
    let _turn = take_turn();
    let (own, _) = with_card(hypervisor);
    let other = Pc::new(hypervisor, PcConfig::default(), &Paper::default().output).unwrap();
    let card = Host::system().find(&[Bus::Pci], CARD).unwrap();
    let on_event: Arc<dyn Fn(AssignedEvent) + Send + Sync> = Arc::new(|_| {});
    let error = chain(&other.assign(&card, true, &on_event).unwrap_err());
    assert!(
        error.contains("in use by another process or another container"),
        "{error}"
    );
    let error = chain(&own.assign(&card, true, &on_event).unwrap_err());
    assert_eq!(error, "0000:00:04.0 is assigned to this guest already");
}

fn card_of_the_host_sends_and_receives_frames_by_msix<H: Hypervisor>(hypervisor: &H) {
    let _turn = take_turn();
    let (pc, events) = with_card(hypervisor);
    let socket = wire();
    let other = thread::spawn(move || exchange(socket));
    let image = Image::parse("nic".to_owned(), &elf(nic().code, &[])).unwrap();
    let begun = Instant::now();
    let before = pc.machine().vm().measure().exit_counts();
    let stop = pc.run(&image, &Boot::default(), move || begun.elapsed() > HANG);
    let exits = pc.machine().vm().measure().exit_counts().heavy - before.heavy;
    let read = |at| -> u32 {
        let memory = pc.machine().vm().memory();
        memory.read_obj(GuestAddress(at)).unwrap()
    };
    let [receptions, transmissions, frames, identity] = [0x600, 0x604, 0x608, 0x60c].map(read);
    let state = format!(
        "{stop:?}, {identity:#x}, {frames} frames, {receptions} and {transmissions} interrupts, {exits} exits, {:?}",
        events.lock()
    );
    assert_eq!(stop.unwrap(), Stop::Done(0), "{state}");
    assert_eq!(other.join().unwrap(), FRAMES, "{state}");
    assert_eq!((identity, frames), (0x10d3_8086, FRAMES), "{state}");
    assert!((1..=FRAMES).contains(&receptions), "{state}");
    assert!((1..=FRAMES).contains(&transmissions), "{state}");
    assert!(events.lock().is_empty(), "{state}");
    drop(pc);
    let command = fs::read(Path::new(FOLDER).join("config")).unwrap()[4];
    assert_eq!(command & 4, 0, "the card does no DMA");
    assert!(is_ready(), "it can be assigned again");
}

testbed::on_kvm! {
    card_of_the_host_sends_and_receives_frames_by_msix;
    card_that_the_host_wants_back_is_pulled_out;
    second_guest_cannot_have_the_card_of_another;
}
