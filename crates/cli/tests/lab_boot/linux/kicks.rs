//! Linux counts as many notifications in the guest as KVM counts on the host.

use super::super::boots::linux::{Guest, line};
use super::{L1, typed_to};

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn host_sees_each_notification_that_linux_sends_and_no_other() {
    // An unmounted disk has no requests other than the script's. The kernel counts the calls of the notifying function,
    // which no other driver of the guest uses.
    let guest = "
mount -t tracefs tracefs /sys/kernel/tracing
cd /sys/kernel/tracing
echo p:kick vp_notify >kprobe_events && echo 1 >events/kprobes/kick/enable
counted() { awk '$1 == \"kick\" { print $2 }' kprobe_profile; }
echo guest: ready
for disk in vda vdb; do
    read line
    before=$(counted)
    dd if=/dev/$disk of=/dev/null bs=4k count=64 2>/dev/null
    dd if=/dev/zero of=/dev/$disk bs=4k count=32 conv=fsync 2>/dev/null
    echo $disk: $(($(counted) - before)) end
done
read line
end poweroff
";
    let start = typed_to(&Guest::command(
        "--device virtio-blk,file=disk \
         --device virtio-blk,file=other,notify=exit,interrupt=call,notify-ports=off",
    ));
    // Writes to PCI's ports, and to registers other than the interrupt controllers'. No driver sets up a device
    // meanwhile.
    let script = format!(
        "truncate -s 1M disk other
         trace=/sys/kernel/tracing/instances/kicks
         mkdir $trace
         echo 'type == 2 && (gpa < 0xfec00000 || gpa > 0xfeefffff)' >$trace/events/kvm/kvm_mmio/filter
         echo 'rw == 1 && port >= 0xc000' >$trace/events/kvm/kvm_pio/filter
         {start}
         reach 'guest: ready'
         for event in kvm_mmio kvm_pio; do echo 1 >$trace/events/kvm/$event/enable; done
         for disk in vda vdb; do
             echo >$trace/trace
             echo >&3; reach \"$disk: .* end\"
             echo host: $(grep -cE 'kvm_(mmio|pio):' $trace/trace)
         done
         echo >&3; wait $pid && cat console"
    );
    let ran = Guest::new(guest).in_l1(&L1, &script);
    let said = ran.said();
    let guests: Vec<&str> = ["vda: ", "vdb: "]
        .iter()
        .flat_map(|disk| line(said, disk))
        .filter_map(|count| count.strip_suffix(" end"))
        .collect();
    assert_eq!(line(said, "host: "), guests, "{said}");
    // The kernel reads ahead and combines writes, so there are fewer notifications than pages.
    assert_eq!(guests.len(), 2, "{said}");
    for count in guests {
        assert!(count.parse::<u32>().unwrap() >= 3, "{said}");
    }
}
