use super::super::template;
use super::*;

fn words(launcher: &VmmLauncher, devices: &[VmmDeviceName]) -> String {
    let places = TemplateValues {
        image: Path::new("/i"),
        bzimage: Path::new("/b"),
        config: Path::new("/c"),
        cmdline: "ops=1 batches=2",
        disk: Path::new("/d"),
        cpus: 2,
        memory: 64,
        accel: "kvm",
    };
    let words = launcher.words(Path::new("/p"), places, devices);
    let text = |word: &OsString| word.to_string_lossy().replace(' ', "_");
    words.iter().map(text).collect::<Vec<_>>().join(" ")
}

const BOTH: [VmmDeviceName; 2] = [VmmDeviceName::Rng, VmmDeviceName::Blk];

#[test]
fn each_vmm_has_its_command_line() {
    let lines: Vec<String> = known().iter().map(|vmm| words(vmm, &BOTH)).collect();
    let common = "-m 64 -nodefaults -no-user-config -no-reboot -display none -serial stdio \
                  -kernel /i -append ops=1_batches=2";
    let drive = "-drive if=none,id=disk,format=raw,file=/d -device";
    assert_eq!(
        lines,
        [
            format!(
                "/p -M pc,accel=kvm -smp 2 {common} -device virtio-rng-pci {drive} virtio-blk-pci,drive=disk"
            ),
            format!(
                "/p -M q35,accel=kvm -smp 2 {common} -device virtio-rng-pci {drive} virtio-blk-pci,drive=disk"
            ),
            format!(
                "/p -M microvm,accel=kvm -smp 2 {common} -global virtio-mmio.force-legacy=false \
                 -device virtio-rng-device {drive} virtio-blk-device,drive=disk"
            ),
            "/p boot --pvh /i -c ops=1_batches=2 --cpu count=2 --memory size=64M --entropy \
             --blk file,path=/d"
                .to_owned(),
            "/p run /i --memory 64M --vcpus 2 --append ops=1_batches=2 --device virtio-rng \
             --device virtio-blk,file=/d"
                .to_owned(),
            "/p run /i --machine micro --memory 64M --vcpus 2 --append ops=1_batches=2 --device virtio-rng \
             --device virtio-blk,file=/d"
                .to_owned(),
            "/p --kernel /i --cmdline ops=1_batches=2 --cpus boot=2 --memory size=64M --serial tty \
             --console off --rng src=/dev/urandom --disk path=/d,image_type=raw"
                .to_owned(),
            "/p run --disable-sandbox --cpus 2 --mem 64 --serial type=stdout,hardware=serial,num=1 \
             -p ops=1_batches=2 /i --block /d"
                .to_owned(),
            "/p --no-api --config-file /c".to_owned(),
            "/p --no-api --enable-pci --config-file /c".to_owned(),
            "/p run --kernel /b --params ops=1_batches=2 --mem 64 --cpus 2 --console serial \
             --name vmbell --rng --disk /d"
                .to_owned(),
            "/proc/self/exe bench vmms boot-by-libkrun /p /i --cmdline ops=1_batches=2 --cpus 2 \
             --memory 64 --disk /d"
                .to_owned(),
            "/p -machine microvm -smp 2 -m 256 -kernel /b -append ops=1_batches=2 -serial stdio \
             -qmp unix:/d.qmp,server,nowait -D /d.log -object rng-random,id=r,filename=/dev/urandom \
             -device virtio-rng-device,rng=r,id=rng0,max-bytes=100000000,period=1000 \
             -drive file=/d,id=d,readonly=off,direct=off -device virtio-blk-device,drive=d,id=b"
                .to_owned(),
        ]
    );
}

#[test]
fn devices_that_are_not_asked_for_are_not_plugged_in() {
    for vmm in known() {
        let line = words(&vmm, &[VmmDeviceName::Rng]);
        // StratoVirt's log and socket are next to the disk.
        let others = ["/d.qmp", "/d.log", "/dev/urandom"];
        let line = others
            .iter()
            .fold(line, |line, other| line.replace(other, ""));
        assert!(!line.contains("/d"), "{line}");
    }
}

#[test]
fn a_template_keeps_the_path_that_was_found() {
    let template = template::parse("x=vmm {image} '{cmdline} safe'").unwrap();
    let line = words(&VmmLauncher::Template(template), &BOTH);
    assert_eq!(line, "/p /i ops=1_batches=2_safe");
}

#[test]
fn a_known_vmm_keeps_its_command_line_with_another_program() {
    for vmm in known() {
        let own = vmm.with_program("/bin/sh");
        assert_eq!(words(&own, &BOTH), words(&vmm, &BOTH));
        assert!(own.find().unwrap().ends_with("sh"), "{own:?}");
    }
}

#[test]
fn what_is_no_program_says_so() {
    assert_eq!(
        on_path("no-such-vmm"),
        Err("no-such-vmm is not on PATH".to_owned())
    );
    assert_eq!(
        on_path("/etc/passwd"),
        Err("/etc/passwd may not be executed".to_owned())
    );
    assert_eq!(
        on_path("/nonexistent/vmm"),
        Err("there is no file /nonexistent/vmm".to_owned())
    );
}

#[test]
fn only_qemu_runs_without_kvm() {
    for vmm in known() {
        let obstacle = vmm.obstacle(Accel::Tcg);
        assert_eq!(
            obstacle.is_none(),
            vmm.name().starts_with("qemu-"),
            "{vmm:?}"
        );
    }
}

#[test]
fn qemu_has_a_console_and_a_network_card_that_lead_nowhere() {
    let line = words(&known()[0], &[VmmDeviceName::Console, VmmDeviceName::Net]);
    assert!(
        line.ends_with(
            "-chardev null,id=nobody -device virtio-serial-pci -device virtconsole,chardev=nobody \
             -netdev user,id=net,restrict=on -device virtio-net-pci,netdev=net,romfile="
        ),
        "{line}"
    );
}

#[test]
fn qemu_and_vmbell_get_a_disk_whose_path_has_commas() {
    let places = TemplateValues {
        image: Path::new("/a,b/i"),
        bzimage: Path::new("/b"),
        config: Path::new("/c"),
        cmdline: "",
        disk: Path::new("/a,b,/d"),
        cpus: 1,
        memory: 64,
        accel: "kvm",
    };
    let words = known()[0].words(Path::new("/p"), places, &[VmmDeviceName::Blk]);
    let has = |word: &str| words.iter().any(|other| other == word);
    assert!(
        has("if=none,id=disk,format=raw,file=/a,,b,,/d"),
        "{words:?}"
    );
    // The image's path is a separate word, so its comma is not doubled.
    assert!(has("/a,b/i"), "{words:?}");
    let known = known();
    let vmbell = known.iter().find(|vmm| vmm.name() == VMBELL).unwrap();
    let words = vmbell.words(Path::new("/p"), places, &[VmmDeviceName::Blk]);
    let device = words.iter().any(|word| word == "virtio-blk,file=/a,,b,,/d");
    assert!(device, "{words:?}");
}
