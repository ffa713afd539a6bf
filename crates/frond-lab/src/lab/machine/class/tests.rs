//! Tests of storage classes, of refusals, and of the search for limits.

use super::*;
use crate::lab::machine::fio::Rate;

fn device(ios_s: f64, bytes_s: f64) -> Fio {
    let rate = Rate { ios_s, bytes_s, mean_us: 100.0, p50_us: 90.0, p99_us: 500.0 };
    Fio {
        version: "fio-3.33".to_owned(),
        random_read_1: rate,
        random_read_32: rate,
        random_write_32: rate,
        sync_write: rate,
        read: rate,
        write: rate,
    }
}

#[test]
fn classes_have_the_limits_of_their_specification() -> Result<()> {
    let names: Vec<String> = all()?.into_iter().map(|class| class.name).collect();
    let expected =
        ["cloud", "cloud-fast", "hdd", "host", "nvme", "sata", "sata-2015", "sata-steady"];
    assert_eq!(names, expected);
    assert!(find("host")?.io().is_none());
    let cloud = find("cloud")?.io();
    assert_eq!((cloud.read_ios_s, cloud.write_bytes_s), (Some(3000), Some(125 << 20)));
    let nvme = find("nvme")?.io();
    assert_eq!((nvme.read_ios_s, nvme.write_ios_s), (Some(450_000), Some(56_000)));
    assert_eq!(find("sata-2015")?.calibrate_ratio, Some(0.217));
    Ok(())
}

#[test]
fn unknown_classes_and_invalid_class_files_are_reported() {
    let failure = find("sata-3").unwrap_err().0;
    assert_eq!(failure, "there is no storage class `sata-3`; did you mean sata?");
    assert!(find("floppy").unwrap_err().0.contains("there are: cloud, cloud-fast, hdd, "));
    let failure = parse("[a]\nmodel = \"b\"\nspeed = 1\n").unwrap_err().0;
    assert!(failure.contains("speed"), "{failure}");
}

#[test]
fn a_class_faster_than_the_device_is_refused_with_the_measured_numbers() -> Result<()> {
    let (cloud, sata) = (find("cloud")?, find("sata")?);
    let ours = device(20_000.0, 450e6);
    cloud.check(&ours)?;
    let failure = sata.check(&ours).unwrap_err().0;
    assert!(failure.contains("random reads per second: 20000 measured, 80000 wanted"), "{failure}");
    assert!(failure.contains("bytes read per second: 450000000 measured"), "{failure}");
    assert!(!failure.contains("bytes written"), "400 MB/s are within reach: {failure}");
    find("host")?.check(&device(1.0, 1.0))?;
    cloud.check(&device(2900.0, 450e6))?; // within the spread of fio
    assert!(cloud.check(&device(2800.0, 450e6)).is_err());
    Ok(())
}

#[test]
fn a_cell_states_which_io_escapes_its_class() -> Result<()> {
    let io = find("hdd")?.io();
    assert_eq!(throttled(&io, Some(IoScope::All)), Throttled::All);
    let partly = throttled(&io, Some(IoScope::Submitted));
    assert!(partly.to_string().contains("journal"), "{partly}");
    assert!(matches!(throttled(&io, None), Throttled::Nothing(_)));
    assert_eq!(throttled(&IoLimits::default(), None), Throttled::All, "the host's disk as it is");
    Ok(())
}

#[test]
fn latency_that_is_not_emulated_is_a_remark() -> Result<()> {
    let hdd = find("hdd")?;
    let without = hdd.remarks(false);
    assert!(without.iter().any(|remark| remark.contains("latency not emulated")), "{without:?}");
    assert!(!hdd.remarks(true).iter().any(|remark| remark.contains("not emulated")));
    assert!(find("host")?.remarks(false).is_empty());
    Ok(())
}

#[test]
fn a_class_with_limits_needs_a_block_device() -> Result<()> {
    let nowhere = Path::new("/proc");
    assert!(find("hdd")?.limits(nowhere, None).is_err());
    assert_eq!(find("host")?.limits(nowhere, Some(7))?.memory, Some(7));
    Ok(())
}

#[test]
fn class_limits_apply_to_processes_of_its_group() -> Result<()> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let class = find("cloud")?;
    match class.limits(dir, None).and_then(|limits| Ok(Group::create(&limits)?)) {
        Ok(group) => {
            assert_eq!(group.io_limits(), class.io());
            assert!(!matches!(class.throttled(&group), Throttled::Nothing(_)));
        }
        Err(failure) => {
            eprintln!("not tested: {failure}");
            assert!(!crate::lab::machine::doctor::throttles(dir), "doctor says it could be");
        }
    }
    Ok(())
}

#[test]
fn a_class_is_measured_on_the_host_and_on_its_own_disk_before_it_is_used() -> Result<()> {
    let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR"))?;
    if crate::lab::machine::packages::Package::named("fio").and_then(|fio| fio.version()).is_none()
    {
        eprintln!("not tested: fio is not installed");
        return Ok(());
    }
    let job = Duration::from_millis(50);
    let host = admit(&find("host")?, dir.path(), job)?;
    assert_eq!((&host.measured, host.throttled), (&host.host, Throttled::All));
    let doctor = crate::lab::machine::doctor::virtual_disk(Kind::Kernel);
    match admit_disk(&find("hdd")?, dir.path(), Bytes::mebi(512), Kind::Kernel, job) {
        Ok((disk, admission)) => {
            assert_eq!(admission.throttled, Throttled::All);
            assert!(disk.count()?.io.written_bytes >= 256 << 20, "fio's file is on the disk");
            disk.close()?;
        }
        // The host may be so busy that it does not reach the 150 MB/s of the disk.
        Err(failure) if failure.0.contains("faster than this device") => {}
        Err(failure) => {
            assert_ne!(doctor.state, crate::lab::machine::doctor::State::Good, "{failure}")
        }
    }
    assert_eq!(std::fs::read_dir(dir.path())?.count(), 0);
    Ok(())
}

fn base() -> Limits {
    let io = IoLimits { read_ios_s: Some(80_000), write_ios_s: Some(80_000), ..Default::default() };
    Limits { memory: None, device: None, io }
}

/// Rate of an engine that is bounded by its CPU and by the reads that the device allows.
fn engine(limits: Limits, ios_per_request: f64) -> f64 {
    let bound = limits.io.read_ios_s.map_or(f64::INFINITY, |ios| ios as f64 / ios_per_request);
    2774.0_f64.min(bound)
}

#[test]
fn calibration_finds_limits_below_and_above_the_base() -> Result<()> {
    // 602 requests per second are wanted; the base's limits give 2774, 2774 × 0.217 and 27 of them.
    for ios_per_request in [4.0, 133.0, 3000.0] {
        let mut calls = 0;
        let found = calibrate(&base(), 0.217, &mut |limits| {
            calls += 1;
            Ok(engine(limits, ios_per_request))
        })?;
        assert!((found.ratio / 0.217 - 1.0).abs() <= 0.05, "{found:?}");
        assert_eq!(found.limits, base().scaled(found.factor));
        assert_eq!(engine(found.limits, ios_per_request) / 2774.0, found.ratio);
        assert!(calls <= 15, "{calls} probes");
    }
    Ok(())
}

#[test]
fn calibration_with_noise_ends_and_returns_the_nearest() -> Result<()> {
    let mut random = crate::random::Random::new(7);
    let found = calibrate(&base(), 0.217, &mut |limits| {
        Ok(engine(limits, 4.0) * (0.85 + 0.3 * random.unit()))
    })?;
    assert!((found.ratio / 0.217 - 1.0).abs() < 0.3 && found.probes <= 15, "{found:?}");
    Ok(())
}

#[test]
fn a_failed_calibration_reports_the_reason() {
    // The limits have no effect because no I/O is done.
    let failure = calibrate(&base(), 0.217, &mut |_| Ok(2774.0)).unwrap_err().0;
    assert!(failure.contains("still above 0.217"), "{failure}");
    // Any limits are costly, however large they are.
    let slow = &mut |limits: Limits| Ok(if limits.io.is_none() { 2774.0 } else { 1.0 });
    assert!(calibrate(&base(), 0.217, slow).unwrap_err().0.contains("still below"));
    assert!(calibrate(&base(), 1.5, &mut |_| Ok(1.0)).is_err());
    assert!(calibrate(&base(), 0.5, &mut |_| Ok(0.0)).is_err());
    let failure = calibrate(&base(), 0.5, &mut |_| Err(Failure("no server".to_owned())));
    assert_eq!(failure.unwrap_err().0, "no server");
}
