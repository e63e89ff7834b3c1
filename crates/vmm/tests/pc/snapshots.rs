//! A PC that is saved while its guest uses virtio devices, and restored: the guest loses no notification, however often
//! this happens.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, mkfifoat};
use tempfile::TempDir;
use vmbell_devices::virtio::{
    Disk, Entropy, Handled, Handler, HandlerError, Inverter, Notify, Request, VirtioConfig,
    VirtioDevice,
};
use vmbell_hypervisor::Hypervisor;
use vmbell_vmm::snapshot::{self, Snapshot, decode};
use vmbell_vmm::{
    AfterSave, BoardError, Boot, Image, Pc, PcConfig, PcModel, PcState, Stop, VCPUS_MAX,
};

use testbed::paper::Paper;
use testbed::{HANG, chain};

/// Requests of each kind that the guest makes, with an interrupt or by polling for each.
const OPERATIONS: u64 = 8;
const WORDS: &str = "only=virtio-rng-round-trip-polled,virtio-rng-round-trip-interrupt,\
                     virtio-blk-round-trip-polled,virtio-blk-round-trip-interrupt";

fn config() -> PcConfig {
    PcConfig {
        model: PcModel::Micro,
        memory: 16 << 20,
        ..PcConfig::default()
    }
}

/// Plugs in what each of the test's PCs has.
fn plug(pc: &Pc, virtio: VirtioConfig, disk: &Path) {
    let disk = fs::File::options()
        .read(true)
        .write(true)
        .open(disk)
        .unwrap();
    let disk = VirtioDevice::new(Disk::new(disk, false).unwrap(), 1, virtio);
    pc.add_virtio_pci(VirtioDevice::new(Entropy, 1, virtio))
        .unwrap();
    pc.add_virtio_pci(disk).unwrap();
}

fn image() -> Image {
    Image::parse("probe.elf".to_owned(), vmbell_probe_image::ELF).unwrap()
}

fn boot() -> Boot {
    Boot {
        arguments: format!("ops={OPERATIONS} batches=1 {WORDS}"),
        ..Boot::default()
    }
}

/// A folder with a disk.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let disk = fs::File::create(folder.path().join("disk")).unwrap();
    disk.set_len(1 << 20).unwrap();
    folder
}

/// Runs the PC with `run`, saves it after `delay` into `to`, and ends it. Returns how the guest ended if it ended
/// before.
fn run_and_save(
    pc: &Arc<Pc>,
    delay: Duration,
    to: &Path,
    run: impl FnOnce(&Pc) -> Result<Stop, BoardError>,
) -> Option<Stop> {
    let (saved, is_saved) = channel();
    let (theirs, to) = (Arc::clone(pc), to.to_owned());
    let saver = std::thread::spawn(move || {
        std::thread::sleep(delay);
        theirs.save(move |state, memory| {
            snapshot::write(&to, &state.unwrap(), memory).unwrap();
            saved.send(()).unwrap();
            AfterSave::End
        })
    });
    let end = run(pc).unwrap_or_else(|error| panic!("{}", chain(&error)));
    // False if the run was over before.
    let is_made = saver.join().unwrap();
    match is_saved.try_recv() {
        Ok(()) => {
            assert_eq!(end, Stop::Kicked);
            None
        }
        Err(_) => {
            assert!(
                !is_made || end != Stop::Kicked,
                "the request was not answered"
            );
            Some(end)
        }
    }
}

/// Each PC continues where the previous one was saved, until the guest has done all its work.
fn a_guest_moves_from_pc_to_pc_and_does_all_its_work<H: Hypervisor>(hypervisor: &H) {
    for (notify, packed) in [
        (Notify::Doorbell, false),
        (Notify::Exit, true),
        (Notify::Poll, true),
    ] {
        let virtio = VirtioConfig {
            notify,
            packed,
            ..VirtioConfig::default()
        };
        let what = format!("{virtio:?}");
        let folder = folder();
        let disk = folder.path().join("disk");
        let paper = Paper::default();
        let until = |begun: Instant| move || begun.elapsed() > HANG;
        let place = |number: u32| folder.path().join(number.to_string());

        let pc = Arc::new(Pc::new(hypervisor, config(), &paper.output).unwrap());
        plug(&pc, virtio, &disk);
        let mut moves = 0;
        let mut end = run_and_save(&pc, Duration::from_millis(30), &place(0), |pc| {
            pc.run(&image(), &boot(), until(Instant::now()))
        });
        while end.is_none() {
            let Snapshot { state, memory } = Snapshot::open(&place(moves)).unwrap();
            // The mapping keeps the file.
            fs::remove_dir_all(place(moves)).unwrap();
            moves += 1;
            assert!(
                moves < 300,
                "{what}: the guest does not get on: {}",
                paper.text()
            );
            let pc = Pc::with_memory(hypervisor, config(), memory, &paper.output);
            let pc = Arc::new(pc.unwrap());
            plug(&pc, virtio, &disk);
            // Growing, so that the guest also gets on where everything is slow.
            let delay = Duration::from_millis(20 * u64::from(moves));
            end = run_and_save(&pc, delay, &place(moves), |pc| {
                pc.restore(&state, until(Instant::now()))
            });
        }
        let output = paper.text();
        assert_eq!(
            end,
            Some(Stop::Done(0x10)),
            "{what}, {moves} moves: {output}"
        );
        assert!(moves > 0, "{what}: the guest ended before it was saved");
        let (_, rest) = output.split_once("=== vmbell-probe begin 1 ===\n").unwrap();
        let (line, _) = rest.split_once("\n=== vmbell-probe end ===").unwrap();
        let document: serde_json::Value = serde_json::from_str(line).unwrap();
        let rows = document["rows"].as_array().unwrap().iter();
        let done = rows.filter(|row| row["operations"] == OPERATIONS).count();
        assert_eq!(done, 4, "{what}");
    }
}

/// The guest goes on after each save, also if the save fails.
fn a_guest_goes_on_after_each_save<H: Hypervisor>(hypervisor: &H) {
    let folder = folder();
    let paper = Paper::default();
    for has_unsaved in [false, true] {
        let pc = Arc::new(Pc::new(hypervisor, config(), &paper.output).unwrap());
        plug(&pc, VirtioConfig::default(), &folder.path().join("disk"));
        if has_unsaved {
            let device = VirtioDevice::new(Inverter, 1, VirtioConfig::default());
            pc.add_virtio_pci(device).unwrap();
        }
        let (theirs, begun) = (Arc::clone(&pc), Instant::now());
        let saver = std::thread::spawn(move || {
            let mut saves: u64 = 0;
            loop {
                // Growing, so that the guest also gets on where a save is slow.
                std::thread::sleep(Duration::from_millis(2 * (saves + 1)));
                let (taken, is_taken) = channel();
                theirs.save(move |state, _| {
                    taken.send(state.map(drop)).unwrap();
                    AfterSave::GoOn
                });
                // Dropped without an answer when the run has ended.
                match is_taken.recv() {
                    Ok(Ok(())) => assert!(!has_unsaved),
                    Ok(Err(error)) => {
                        let text = chain(&error);
                        let expected = "a virtio-inverter cannot be saved: its state on the host";
                        assert!(has_unsaved && text.contains(expected), "{text}");
                    }
                    Err(_) => return saves,
                }
                saves += 1;
            }
        });
        let end = pc.run(&image(), &boot(), move || begun.elapsed() > HANG);
        assert_eq!(end.ok(), Some(Stop::Done(0x10)), "{}", paper.text());
        assert!(saver.join().unwrap() > 0);
    }
}

/// An entropy device that never has random bytes, and counts how often it looks at the request that waits for them.
#[derive(Clone, Default)]
struct Empty(Arc<AtomicU64>);

impl Handler for Empty {
    const DEVICE_ID: u32 = Entropy::DEVICE_ID;
    const NAME: &'static str = Entropy::NAME;

    fn is_stateless(&self) -> bool {
        true
    }

    fn handle(&self, request: Request<'_>) -> Result<Handled, HandlerError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(request.wait())
    }
}

/// The guest's first request is open when it is saved. The copy has entropy.
fn a_guest_that_ends_leaves_its_open_request_to_its_copy<H: Hypervisor>(hypervisor: &H) {
    let folder = folder();
    let paper = Paper::default();
    let virtio = VirtioConfig {
        notify: Notify::Exit,
        ..VirtioConfig::default()
    };
    let boot = Boot {
        arguments: format!("ops={OPERATIONS} batches=1 only=virtio-rng-round-trip-polled"),
        ..Boot::default()
    };
    let until = |begun: Instant| move || begun.elapsed() > HANG;
    let pc = Arc::new(Pc::new(hypervisor, config(), &paper.output).unwrap());
    let empty = Empty::default();
    let looks = Arc::clone(&empty.0);
    pc.add_virtio_pci(VirtioDevice::new(empty, 1, virtio))
        .unwrap();
    let (saved, is_saved) = channel();
    let (theirs, to) = (Arc::clone(&pc), folder.path().join("snapshot"));
    let saver = std::thread::spawn(move || {
        while looks.load(Ordering::Relaxed) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let seen = Arc::clone(&looks);
        assert!(theirs.save(move |state, memory| {
            snapshot::write(&to, &state.unwrap(), memory).unwrap();
            saved.send(seen.load(Ordering::Relaxed)).unwrap();
            AfterSave::End
        }));
        looks
    });
    let end = pc.run(&image(), &boot, until(Instant::now()));
    assert_eq!(end.ok(), Some(Stop::Kicked), "{}", paper.text());
    let looks = saver.join().unwrap();
    let at_save = is_saved.try_recv().unwrap();
    drop(pc);
    assert_eq!(looks.load(Ordering::Relaxed), at_save);

    let Snapshot { state, memory } = Snapshot::open(&folder.path().join("snapshot")).unwrap();
    let pc = Pc::with_memory(hypervisor, config(), memory, &paper.output).unwrap();
    pc.add_virtio_pci(VirtioDevice::new(Entropy, 1, virtio))
        .unwrap();
    let end = pc.restore(&state, until(Instant::now()));
    assert_eq!(end.ok(), Some(Stop::Done(0x10)), "{}", paper.text());
}

/// Saves a guest, and calls `use_it` with the snapshot's folder.
fn with_snapshot<H: Hypervisor>(hypervisor: &H, use_it: impl FnOnce(&Path, &Path)) {
    let folder = folder();
    let (disk, to) = (folder.path().join("disk"), folder.path().join("snapshot"));
    let paper = Paper::default();
    let pc = Arc::new(Pc::new(hypervisor, config(), &paper.output).unwrap());
    plug(&pc, VirtioConfig::default(), &disk);
    let begun = Instant::now();
    let end = run_and_save(&pc, Duration::from_millis(20), &to, |pc| {
        pc.run(&image(), &boot(), move || begun.elapsed() > HANG)
    });
    assert_eq!(end, None);
    use_it(&to, &disk);
}

/// Plugs devices in.
type Plug<'p> = dyn Fn(&Pc) + 'p;

fn a_board_that_differs_is_named<H: Hypervisor>(hypervisor: &H) {
    with_snapshot(hypervisor, |snapshot, disk| {
        let refusal = |config: PcConfig, plug: &Plug<'_>| {
            let Snapshot { state, memory } = Snapshot::open(snapshot).unwrap();
            let memory = (config.memory == state.memory()).then_some(memory);
            let output = Paper::default().output;
            let pc = match memory {
                Some(memory) => Pc::with_memory(hypervisor, config, memory, &output),
                None => Pc::new(hypervisor, config, &output),
            };
            let pc = pc.unwrap();
            plug(&pc);
            let (answer, answers) = channel::<()>();
            let is_made = pc.save(move |_, _| {
                answer.send(()).unwrap();
                AfterSave::End
            });
            assert!(is_made);
            let error = chain(&pc.restore(&state, || true).unwrap_err());
            let dropped = answers.recv_timeout(HANG);
            assert_eq!(dropped, Err(RecvTimeoutError::Disconnected));
            assert!(!pc.save(|_, _| AfterSave::End), "the run is over");
            error
        };
        let virtio = VirtioConfig::default();
        let same = |pc: &Pc| plug(pc, virtio, disk);
        let larger = disk.with_file_name("larger");
        fs::File::create(&larger).unwrap().set_len(2 << 20).unwrap();
        let packed = VirtioConfig {
            packed: true,
            ..virtio
        };
        let (memory, vcpus) = (64 << 20, 2);
        let cases: [(PcConfig, &Plug<'_>, &str); 6] = [
            (
                PcConfig { memory, ..config() },
                &same,
                "16777216 bytes of RAM, and this one has 67108864",
            ),
            (
                PcConfig { vcpus, ..config() },
                &same,
                "1 vcpus, and this one has 2",
            ),
            (
                PcConfig {
                    model: PcModel::Full,
                    ..config()
                },
                &same,
                "the micro model is saved",
            ),
            (config(), &|_| {}, "slots in use"),
            (
                config(),
                &|pc| plug(pc, virtio, &larger),
                "the size of a disk",
            ),
            (config(), &|pc| plug(pc, packed, disk), "it offers features"),
        ];
        for (config, plug, expected) in cases {
            let error = refusal(config, plug);
            assert!(error.contains(expected), "{error}");
        }
    });
}

fn a_state_with_any_byte_of_its_header_flipped_is_refused<H: Hypervisor>(hypervisor: &H) {
    with_snapshot(hypervisor, |snapshot, _| {
        let bytes = fs::read(snapshot.join("state")).unwrap();
        decode(&bytes).unwrap();
        let header = 44;
        // The header, and some of what follows it.
        for at in (0..header).chain((header..bytes.len()).step_by(997)) {
            for bit in [0, 7] {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                let error = decode(&flipped).unwrap_err().to_string();
                assert!(
                    error.contains("not the state of a snapshot"),
                    "byte {at}: {error}"
                );
            }
        }
        for len in [0, header - 1, header, bytes.len() - 1] {
            decode(&bytes[..len]).unwrap_err();
        }
        // The folder is not written twice, a folder that a killed process left does not matter, and a memory of
        // another size is refused.
        let Snapshot { state, memory } = Snapshot::open(snapshot).unwrap();
        let error = snapshot::write(snapshot, &state, &memory).unwrap_err();
        assert!(error.to_string().contains("exists already"), "{error}");
        for name in [".0", &format!(".{}", std::process::id())] {
            let name = format!("second{name}.partial");
            fs::create_dir(snapshot.with_file_name(name)).unwrap();
        }
        let second = snapshot.with_file_name("second");
        snapshot::write(&second, &state, &memory).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(&second), 0o700);
        for name in ["state", "memory"] {
            assert_eq!(mode(&second.join(name)), 0o600, "{name}");
            let [first, second] = [snapshot, &second].map(|folder| fs::read(folder.join(name)));
            assert!(first.unwrap() == second.unwrap(), "{name}");
        }
        let file = fs::File::options()
            .write(true)
            .open(snapshot.join("memory"));
        file.unwrap().set_len(1 << 20).unwrap();
        let error = Snapshot::open(snapshot).unwrap_err().to_string();
        assert!(error.contains("its memory has 1048576 bytes"), "{error}");
    });
}

/// A link could give a guest the memory of another one, and to open a pipe waits for its other end.
fn files_that_are_links_or_pipes_are_refused<H: Hypervisor>(hypervisor: &H) {
    with_snapshot(hypervisor, |snapshot, _| {
        for name in ["state", "memory"] {
            let (file, other) = (snapshot.join(name), snapshot.with_file_name("other"));
            fs::rename(&file, &other).unwrap();
            std::os::unix::fs::symlink(&other, &file).unwrap();
            let error = chain(&Snapshot::open(snapshot).unwrap_err());
            let text = format!("cannot open {}", file.display());
            assert!(error.contains(&text), "{error}");
            fs::remove_file(&file).unwrap();
            mkfifoat(CWD, &file, Mode::RUSR | Mode::WUSR).unwrap();
            let error = chain(&Snapshot::open(snapshot).unwrap_err());
            assert!(error.contains("not a regular file"), "{error}");
            fs::rename(&other, &file).unwrap();
        }
        Snapshot::open(snapshot).unwrap();
    });
}

fn more_vcpus_than_a_pc_can_have_are_refused_before_they_are_read<H: Hypervisor>(hypervisor: &H) {
    with_snapshot(hypervisor, |snapshot, _| {
        let mut state = serde_json::to_value(Snapshot::open(snapshot).unwrap().state).unwrap();
        let vcpus = state["vcpus"].as_array_mut().unwrap();
        vcpus.resize(usize::from(VCPUS_MAX), vcpus[0].clone());
        let length = state.to_string().len();
        assert!(length < 8 << 20, "{length} bytes cannot be read back");
        let most: PcState = serde_json::from_value(state.clone()).unwrap();
        assert_eq!(most.vcpus(), usize::from(VCPUS_MAX));
        let vcpus = state["vcpus"].as_array_mut().unwrap();
        vcpus.push("no state of a vcpu".into());
        let error = serde_json::from_value::<PcState>(state).unwrap_err();
        let expected = "invalid length 65, expected at most 64 vcpus";
        assert!(error.to_string().contains(expected), "{error}");
    });
}

testbed::on_kvm! {
    a_guest_moves_from_pc_to_pc_and_does_all_its_work;
    a_guest_goes_on_after_each_save;
    a_guest_that_ends_leaves_its_open_request_to_its_copy;
    a_board_that_differs_is_named;
    a_state_with_any_byte_of_its_header_flipped_is_refused;
    files_that_are_links_or_pipes_are_refused;
    more_vcpus_than_a_pc_can_have_are_refused_before_they_are_read;
}
