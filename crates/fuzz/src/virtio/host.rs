//! The host's side of the devices: a file for a disk, a pair of sockets for a tap and for a console's input, and
//! nothing for a device of random bytes.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixDatagram;

use vm_memory::{Bytes, GuestAddress};
use vmbell_devices::Output;
use vmbell_devices::virtio::net::{Mac, NET_QUEUES, Net, Offloads, Tap};
use vmbell_devices::virtio::pci::{GuestParts, VirtioPci};
use vmbell_devices::virtio::{CONSOLE_QUEUES, Console, Disk, Entropy, VirtioDevice};
use vmbell_devices::virtio::{Notify, VirtioConfig};
use vmbell_virtqueue::Buffer;

use crate::input::{Input, Memory};

/// The header of a packet.
const HEADER: usize = 12;
/// The longest packet, with its header.
const LONGEST: usize = HEADER + 22 + 65_535;
const SECTORS: u64 = 8;
const DISK: usize = SECTORS as usize * 512;
/// The initial value of every byte of a disk.
const CONTENTS: u8 = 0xa5;

/// The type of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Rng,
    Console,
    Disk { read_only: bool },
    Net { offloads: Offloads },
}

impl From<u8> for Kind {
    fn from(choice: u8) -> Self {
        match choice % 8 {
            0 => Self::Rng,
            1 => Self::Console,
            2 | 3 => Self::Disk { read_only: false },
            4 => Self::Disk { read_only: true },
            5 | 6 => Self::Net {
                offloads: Offloads::Off,
            },
            _ => Self::Net {
                offloads: Offloads::On,
            },
        }
    }
}

/// The host's side of a device.
pub struct Host {
    kind: Kind,
    file: Option<File>,
    /// The current size of the file.
    len: u64,
    /// The smallest size that the file has had: this many bytes were never lost.
    kept: u64,
    /// Whether the file may change its size. It may not while another thread serves the queue.
    shrinks: bool,
    wire: Option<UnixDatagram>,
    /// What a console's driver has sent since the last check.
    printed: Option<(File, Output)>,
    /// Room for the longest packet and one more byte.
    packet: Box<[u8]>,
}

impl Host {
    /// Makes a device, and its host's side.
    pub fn new(kind: Kind, config: VirtioConfig, guest: GuestParts) -> (VirtioPci, Self) {
        let mut host = Self {
            kind,
            file: None,
            len: SECTORS * 512,
            kept: SECTORS * 512,
            shrinks: config.notify == Notify::Exit,
            wire: None,
            printed: None,
            packet: vec![0; LONGEST + 1].into(),
        };
        let device = match kind {
            Kind::Rng => VirtioDevice::new(Entropy, 1, config),
            Kind::Console => {
                let input = host.connect();
                let mut appended = tempfile::Builder::new();
                let printed = appended.append(true).tempfile_in("/dev/shm").unwrap();
                let printed = printed.into_file();
                let output = Output::new(printed.try_clone().unwrap().into()).unwrap();
                let console = Console::new(input, &output).unwrap();
                host.printed = Some((printed, output));
                VirtioDevice::new(console, CONSOLE_QUEUES, config)
            }
            Kind::Disk { read_only } => {
                let file = tempfile::tempfile_in("/dev/shm").unwrap();
                file.write_all_at(&[CONTENTS; DISK], 0).unwrap();
                let disk = Disk::new(file.try_clone().unwrap(), read_only).unwrap();
                host.file = Some(file);
                VirtioDevice::new(disk, 1, config)
            }
            Kind::Net { offloads } => {
                let tap = Tap::from_file(File::from(host.connect()));
                let net = Net::new(tap, Mac::of("fuzz"), offloads);
                VirtioDevice::new(net, NET_QUEUES, config)
            }
        };
        (VirtioPci::new(device, guest).unwrap(), host)
    }

    /// Makes a pair of sockets, and returns the device's.
    fn connect(&mut self) -> OwnedFd {
        let (device, wire) = UnixDatagram::pair().unwrap();
        device.set_nonblocking(true).unwrap();
        wire.set_nonblocking(true).unwrap();
        self.wire = Some(wire);
        device.into()
    }

    /// Returns the buffers of what the device may accept as a request.
    pub fn request(&self, memory: &Memory, input: &mut Input<'_>) -> (Vec<Buffer>, Vec<Buffer>) {
        const AT: u64 = 0x1000;
        let (kind, place, len) = (input.byte(), input.byte(), u32::from(input.byte()));
        let data = Buffer::new(0x2000 + 16 * u64::from(place), 16 * len);
        match self.kind {
            Kind::Rng => (Vec::new(), vec![data]),
            Kind::Console if kind & 1 == 0 => (vec![data], Vec::new()),
            Kind::Console => (Vec::new(), vec![data]),
            Kind::Net { .. } if kind & 1 == 0 => (vec![Buffer::new(AT, 12), data], Vec::new()),
            Kind::Net { .. } => (Vec::new(), vec![data]),
            Kind::Disk { .. } => {
                let mut header = [0; 16];
                (header[0], header[8]) = (kind % 12, place % 10);
                // A sector far beyond the end of any disk.
                header[15] = if place < 0xf0 { 0 } else { place };
                memory.write_slice(&header, GuestAddress(AT)).unwrap();
                let header = Buffer::new(AT, 16);
                let status = Buffer::new(AT + 16, 1);
                let data = Buffer::new(data.addr, len % 5 * 512);
                if kind % 12 == 1 {
                    (vec![header, data], vec![status])
                } else {
                    (vec![header], vec![data, status])
                }
            }
        }
    }

    /// Something that happens on the host.
    pub fn event(&mut self, input: &mut Input<'_>) {
        if let Some(wire) = &self.wire {
            // An error means that the host's queue is full.
            let _ = wire.send(&vec![7; usize::from(input.byte()) * 8]);
        }
        if let Some(file) = &self.file
            && self.shrinks
        {
            self.len = u64::from(input.byte()) % SECTORS * 512;
            self.kept = self.kept.min(self.len);
            file.set_len(self.len).unwrap();
        }
    }

    /// Checks what has to be true for any driver.
    pub fn check(&mut self) {
        if let Some((printed, output)) = &self.printed {
            assert_eq!(output.drain(|| true), 0);
            printed.set_len(0).unwrap();
        }
        let kind = self.kind;
        while let Some(packet) = self.received() {
            assert!((HEADER + 1..=LONGEST).contains(&packet.len()));
            let asks = packet[..HEADER].iter().any(|byte| *byte != 0);
            let offloads = Offloads::Off;
            assert!(!asks || kind != Kind::Net { offloads });
        }
        let Some(file) = &self.file else { return };
        assert_eq!(file.metadata().unwrap().len(), self.len);
        if self.kind == (Kind::Disk { read_only: true }) {
            let mut bytes = vec![0; usize::try_from(self.len).unwrap()];
            file.read_exact_at(&mut bytes, 0).unwrap();
            // Bytes that the file lost and got back are zeros.
            let (kept, lost) = bytes.split_at(usize::try_from(self.kept).unwrap());
            assert_eq!(kept, &[CONTENTS; DISK][..kept.len()]);
            assert_eq!(lost, &[0; DISK][..lost.len()]);
        }
    }

    fn received(&mut self) -> Option<&[u8]> {
        let len = self.wire.as_ref()?.recv(&mut self.packet).ok()?;
        self.packet.get(..len)
    }

    /// Returns a request that must be answered, and the length of the answer.
    pub fn sound_request(&self) -> (Vec<u8>, u32) {
        match self.kind {
            Kind::Rng => (Vec::new(), 64),
            Kind::Console => (b"said".to_vec(), 0),
            Kind::Disk { .. } => ([&[8][..], &[0; 15]].concat(), 21),
            Kind::Net { .. } => ([&[0; HEADER][..], &[0xa5; 60]].concat(), 0),
        }
    }

    /// The queue for [`sound_request`](Self::sound_request).
    pub fn sound_queue(&self) -> u16 {
        u16::from(self.wire.is_some())
    }

    /// Checks that a [`sound_request`](Self::sound_request), which was answered, has had its effect.
    pub fn check_sound(&mut self, request: &[u8]) {
        match self.kind {
            Kind::Rng | Kind::Disk { .. } => {}
            Kind::Console => {
                let mut printed = vec![0; request.len() + 1];
                let (file, output) = self.printed.as_ref().unwrap();
                assert_eq!(output.drain(|| true), 0);
                let len = file.read_at(&mut printed, 0);
                assert_eq!(&printed[..len.unwrap()], request);
            }
            Kind::Net { .. } => assert_eq!(self.received(), Some(request)),
        }
    }
}
