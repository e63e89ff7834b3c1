//! Linux's disks: a file that shrinks, and a `vmbell` that is killed.

use super::super::boots::linux::{Guest, line};
use super::super::boots::text;
use super::L1;

const SECTOR: usize = 512;

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn what_was_flushed_is_on_the_disk_after_vmbell_was_killed() {
    let script = "
number=0
while :; do
    printf '%08d' $number | dd of=/dev/vda bs=512 seek=$number count=1 conv=sync,notrunc,fsync 2>/dev/null || exit
    echo flushed: $number
    number=$((number + 1))
done
";
    let script_of_l1 = format!(
        "truncate -s 4M disk
         {} >out/console </dev/null & pid=$!
         until grep -q 'flushed: 50' out/console; do sleep 0.2; kill -0 $pid || exit 1; done
         kill -KILL $pid; wait $pid; cp disk out/disk",
        Guest::command("--device virtio-blk,file=disk")
    );
    let ran = Guest::new(script).in_l1(&L1, &script_of_l1);
    ran.said();
    let console = ran.left("console");
    // The last line may be incomplete.
    let (console, _) = text(&console).rsplit_once('\n').unwrap_or_default();
    let last = line(console, "flushed: ")
        .last()
        .and_then(|number| number.parse().ok());
    let last: usize = last.unwrap_or_else(|| panic!("{console}"));
    assert!(last >= 50, "{console}");
    let disk = ran.left("disk");
    for number in 0..=last {
        let sector = &disk[number * SECTOR..][..8];
        assert_eq!(text(sector), format!("{number:08}"));
    }
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn disk_whose_file_shrinks_has_errors_where_it_is_gone_and_the_guest_goes_on() {
    let guest = "
read_at() { dd if=/dev/vda of=/dev/null bs=4096 skip=$1 count=1 iflag=direct 2>/dev/null; }
write_at() { dd if=/dev/zero of=/dev/vda bs=4096 seek=$1 count=1 oflag=direct conv=notrunc 2>/dev/null; }
read_at 1000 && echo before: has all
echo guest: ready
while read_at 1000; do sleep 0.1; done
write_at 1000 || echo write: fails
read_at 10 && write_at 10 && echo kept: is there
end poweroff
";
    let script = format!(
        "truncate -s 4M disk
         {} >console </dev/null & pid=$!
         until grep -q 'guest: ready' console; do kill -0 $pid || exit 1; sleep 0.1; done
         truncate -s 1M disk
         wait $pid; echo status: $?; cat console; stat -c 'size: %s' disk",
        Guest::command("--device virtio-blk,file=disk")
    );
    let ran = Guest::new(guest).in_l1(&L1, &script);
    let said = ran.said();
    for (begin, rest) in [
        ("before: ", "has all"),
        ("write: ", "fails"),
        ("kept: ", "is there"),
        ("status: ", "0"),
        ("size: ", "1048576"),
    ] {
        assert_eq!(line(said, begin), [rest], "{said}");
    }
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn file_system_is_whole_and_has_what_was_synced_after_vmbell_was_killed_in_mid_write() {
    // The first guest writes until it is killed; a second one finds what the first had synced.
    let guest = "
mount -t ext4 /dev/vda /mnt || end poweroff
if [ -e /mnt/0 ]; then
    cd /mnt && for file in *; do [ -f $file ] && echo found: $(md5sum $file); done
    cd / && umount /mnt && echo unmounted: $?
    end poweroff
fi
number=0
while :; do
    dd if=/dev/urandom of=/mnt/$number bs=4096 count=16 conv=fsync 2>/dev/null
    echo synced: $(cd /mnt && md5sum $number)
    number=$((number + 1))
done
";
    let run = Guest::command("--device virtio-blk,file=disk");
    // The journal also repairs the disk as the kill left it (1: something was repaired); then nothing is left to
    // repair.
    let script = format!(
        "truncate -s 64M disk && mkfs.ext4 -q disk || exit
         {run} >out/first </dev/null & pid=$!
         until grep -q 'synced: .* 20' out/first; do sleep 0.1; kill -0 $pid || exit 1; done
         kill -KILL $pid; wait $pid; cp disk killed
         {run} >out/second </dev/null; echo status: $?
         e2fsck -fp killed >out/checks; echo mended: $?
         for disk in killed disk; do e2fsck -fn $disk >>out/checks; echo whole: $?; done"
    );
    let ran = Guest::new(guest).in_l1(&L1, &script);
    let said = ran.said();
    let left = ["first", "second", "checks"].map(|name| ran.left(name));
    let [first, second, checks] = left.each_ref().map(|left| text(left));
    let said = format!("{said}{first}{second}{checks}");
    assert_eq!(line(&said, "status: "), ["0"], "{said}");
    assert!(
        ["0", "1"].contains(&&*line(&said, "mended: ").concat()),
        "{said}"
    );
    assert_eq!(line(&said, "whole: "), ["0"; 2], "{said}");
    assert_eq!(line(second, "unmounted: "), ["0"], "{second}");
    let (synced, found) = (line(first, "synced: "), line(second, "found: "));
    // The last line may be incomplete.
    let whole = &synced[..synced.len() - 1];
    assert!(whole.len() >= 20, "{first}");
    for file in whole {
        assert!(found.contains(file), "{file} of {synced:?} in {found:?}");
    }
}
