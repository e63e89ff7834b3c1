//! Linux's driver sends its position with each notification, on an L1 with the module kvm_ioeventfd.

use super::super::boots::linux::{Guest, line};
use super::super::boots::session::Session;
use super::{L1, tools, typed_to};

static WITH_MODULE: Session = Session::new(&["--kvm-ioeventfd"], tools);

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn notifications_with_data_are_no_exits_and_none_is_lost() {
    // A character for each feature bit, beginning with bit 0.
    let guest = "
for device in 0 1; do
    echo feature: $(cut -c39 /sys/bus/virtio/devices/virtio$device/features)
done
echo guest: ready
read line
for disk in vda vdb; do
    dd if=/dev/$disk of=/dev/null bs=4k count=64 iflag=direct 2>/dev/null && echo disk: was read
done
echo guest: end
read line
end poweroff
";
    let start = typed_to(&Guest::command(
        "--device virtio-blk,file=disk,notification-data \
         --device virtio-blk,file=other,packed,notification-data",
    ));
    // The guest's writes to memory that exit to the VMM (KVM_EXIT_MMIO).
    let script = format!(
        "truncate -s 1M disk other
         trace=/sys/kernel/tracing/instances/data
         mkdir $trace
         echo 'reason == 6' >$trace/events/kvm/kvm_userspace_exit/filter
         {start}
         reach 'guest: ready'
         echo 1 >$trace/events/kvm/kvm_userspace_exit/enable
         echo >&3; reach 'guest: end'
         echo exits: $(grep -c kvm_userspace_exit: $trace/trace)
         echo >&3; wait $pid; echo status: $?; cat console"
    );
    let ran = Guest::new(guest).in_l1(&WITH_MODULE, &script);
    let said = ran.said();
    assert_eq!(line(said, "feature: "), ["1", "1"], "{said}");
    assert_eq!(line(said, "disk: "), ["was read"; 2], "{said}");
    assert_eq!(line(said, "exits: "), ["0"], "{said}");
    assert_eq!(line(said, "status: "), ["0"], "{said}");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn data_is_not_offered_where_nothing_stores_it() {
    let run = Guest::command("--device virtio-rng,notification-data");
    let script = format!("{run} </dev/null; echo status: $?");
    let ran = Guest::new("end poweroff").in_l1(&L1, &script);
    let said = ran.said();
    assert_eq!(line(said, "status: "), ["126"], "{said}");
}
