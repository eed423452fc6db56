package doctor

import "golang.org/x/sys/unix"

// networkFileSystem names the network file system that a folder is on; empty for none.
func networkFileSystem(dir string) string {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return ""
	}
	return map[int64]string{unix.NFS_SUPER_MAGIC: "NFS", unix.SMB_SUPER_MAGIC: "SMB", unix.SMB2_SUPER_MAGIC: "SMB", unix.FUSE_SUPER_MAGIC: "FUSE", unix.V9FS_MAGIC: "9P", unix.CEPH_SUPER_MAGIC: "Ceph"}[int64(s.Type)]
}

// openFiles returns how many files this process may open.
func openFiles() (n uint64, ok bool) {
	var l unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l)
	return l.Cur, err == nil
}

// freeDisk returns a disk's free bytes, by a folder.
func freeDisk(dir string) (free uint64, ok bool) {
	var s unix.Statfs_t
	err := unix.Statfs(dir, &s)
	return s.Bavail * uint64(s.Bsize), err == nil
}
