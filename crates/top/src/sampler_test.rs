use super::*;

/// A `kvm_run` with this reason, and these bytes at the start of its union.
fn run(reason: u32, union: &[u8]) -> [u8; LENGTH] {
    let mut run = [0xee; LENGTH];
    run[8..12].copy_from_slice(&reason.to_le_bytes());
    run[32..32 + union.len()].copy_from_slice(union);
    run
}

fn access(space: Space, address: u64, is_write: bool, size: u8) -> SampledPlace {
    SampledPlace::Access {
        space,
        address,
        is_write,
        size,
    }
}

#[test]
fn a_page_says_whether_a_vcpu_is_in_its_vmm_and_for_which_access() {
    assert_eq!(place(&run(0, &[])), SampledPlace::Kvm);
    let port = access(Space::Port, 0x3f8, true, 1);
    assert_eq!(place(&run(2, &[1, 1, 0xf8, 3])), port);
    let mut mmio = [0; 24];
    mmio[..8].copy_from_slice(&0xd000_1050_u64.to_le_bytes());
    (mmio[16], mmio[20]) = (4, 1);
    let notify = access(Space::Mmio, 0xd000_1050, true, 4);
    assert_eq!(place(&run(6, &mmio)), notify);
    let msr = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x0b, 8, 0, 0];
    assert_eq!(place(&run(30, &msr)), access(Space::Msr, 0x80b, true, 0));
    assert_eq!(place(&run(5, &[])), SampledPlace::Reason(5));
}

#[test]
fn a_vmm_that_writes_nonsense_has_no_size_and_not_more_places_than_there_is_room_for() {
    let nonsense = place(&run(2, &[77, 200, 0xf8, 3]));
    assert_eq!(nonsense, access(Space::Port, 0x3f8, true, 0));
    assert_eq!(place(&run(u32::MAX, &[])), SampledPlace::Reason(u32::MAX));
    let mut samples = Samples::default();
    for reason in 1..2000 {
        samples.add(&[(7, Ok(vec![SampledPlace::Reason(reason)]))]);
    }
    samples.add(&[(8, Ok(vec![SampledPlace::Kvm]))]);
    assert_eq!(samples.counts.len(), PLACES + 2);
    assert_eq!(samples.counts[&(7, SampledPlace::Other)], 1999 - 1024);
    assert_eq!(samples.counts[&(8, SampledPlace::Kvm)], 1);
}

#[test]
fn a_page_of_this_process_is_read_and_one_that_is_gone_has_no_place() {
    let pid = std::process::id();
    let page = run(6, &[]);
    let at = page.as_ptr() as u64;
    let places = look(pid, &[at, 0, at]).unwrap();
    assert_eq!(places, [place(&page)]);
    assert!(look(pid, &[0]).is_err());
}

#[test]
fn samples_grow_until_their_process_is_gone() {
    let sampler = Sampler::start("6.12.0").unwrap();
    let pid = std::process::id();
    let page = run(0, &[]);
    let pages = BTreeMap::from([(pid, vec![page.as_ptr() as u64])]);
    assert_eq!(sampler.read(pages.clone()), Samples::default());
    let mut seen = Samples::default();
    while seen.counts.get(&(pid, SampledPlace::Kvm)) < Some(&3) {
        thread::sleep(Duration::from_millis(1));
        seen = sampler.read(pages.clone());
    }
    sampler.read(BTreeMap::new());
    assert_eq!(sampler.read(BTreeMap::new()).counts, HashMap::new());
}

#[test]
fn a_kernel_that_keeps_the_last_reason_is_refused_with_its_version() {
    let error = Sampler::start("6.1.0-56-cloud-amd64").unwrap_err();
    let text = "Linux 6.1.0-56-cloud-amd64 keeps the reason of a vCPU's last exit while it runs, unlike Linux 6.12";
    assert_eq!(error.to_string(), text);
    assert!(Sampler::start("7.3.4+deb13-cloud-amd64").is_ok());
    assert!(Sampler::start("unknown").is_err());
}
