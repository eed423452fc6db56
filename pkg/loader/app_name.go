package loader

// CheckAppName says why a folder, which need not be there, cannot be an app's
// by its name; nil when it can.
func CheckAppName(dir string) error {
	return (*Loader)(nil).checkAppName(&source{name: AppName(dir), shown: dir}).Err()
}
