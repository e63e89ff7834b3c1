//! KVM's pseudo device of VFIO: files that it knows already, does not know, or does not want.

use std::fs::File;
use std::os::fd::AsFd;

use vmbell_hypervisor::{Error, Hypervisor};

use super::{CARD, EDU, alone_with_devices, group_file};
use testbed::plain;

fn number(result: Result<(), Error>) -> i32 {
    match result {
        Err(Error::System { source, .. }) => source.raw_os_error().unwrap(),
        result => panic!("{result:?}"),
    }
}

fn row_14_file_is_told_once_and_taken_back_once<H: Hypervisor>(h: &H) {
    let _alone = alone_with_devices();
    let vm = plain(h);
    let open = |name| {
        let file = File::options()
            .read(true)
            .write(true)
            .open(group_file(name));
        file.unwrap()
    };
    let (edu, card) = (open(EDU), open(CARD));
    // The backend does not know the device yet.
    vm.remove_vfio_file(edu.as_fd()).unwrap();
    vm.add_vfio_file(edu.as_fd()).unwrap();
    assert_eq!(number(vm.add_vfio_file(edu.as_fd())), libc::EEXIST);
    let same = edu.try_clone().unwrap();
    assert_eq!(number(vm.add_vfio_file(same.as_fd())), libc::EEXIST);
    assert_eq!(number(vm.remove_vfio_file(card.as_fd())), libc::ENOENT);
    vm.add_vfio_file(card.as_fd()).unwrap();
    vm.remove_vfio_file(edu.as_fd()).unwrap();
    assert_eq!(number(vm.remove_vfio_file(edu.as_fd())), libc::ENOENT);
    vm.add_vfio_file(edu.as_fd()).unwrap();
}

fn row_14_file_that_is_not_vfios_is_refused<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let other = File::open("/dev/null").unwrap();
    assert_eq!(number(vm.add_vfio_file(other.as_fd())), libc::EINVAL);
    assert_eq!(number(vm.remove_vfio_file(other.as_fd())), libc::ENOENT);
}

testbed::on_kvm! {
    row_14_file_is_told_once_and_taken_back_once;
    row_14_file_that_is_not_vfios_is_refused;
}
