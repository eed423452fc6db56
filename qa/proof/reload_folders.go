package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"agenthost/pkg/loader"
)

// goneFolderRows breaks a server's folders in several ways. While they are broken, saves in the
// other folder must be loaded; when they are back, so must saves in them.
func goneFolderRows(ctx context.Context, l *lab) ([]row, error) {
	p := &folderProof{dir: filepath.Join(l.dir, "folders"), rounds: l.choose(2, 100)}
	if err := p.runRounds(ctx); err != nil {
		return nil, err
	}
	return []row{{
		"a folder that is gone or unreadable stops no reload of the others, is named, and is reloaded when it is back",
		fmt.Sprintf("%d saves while 2 of 3 folders were gone: %d not loaded, %d times a folder was not named; %d saves after their return: %d not loaded; control, all folders or none: %d of %d not loaded",
			p.saves, p.missed, p.unnamed, p.returns, p.missedReturns, p.controlMissed, p.saves),
		p.missed == 0 && p.unnamed == 0 && p.missedReturns == 0 && p.controlMissed == p.saves,
	}}, nil
}

// A folderProof is a host that watches an app and two folders that break.
type folderProof struct {
	dir                             string
	rounds                          int
	host                            *watchedHost
	saves, missed, unnamed          int
	returns, missedReturns, counter int
	controlMissed                   int
}

// folderFaults returns the ways in which a folder breaks, once it is moved away.
func folderFaults() []func(path string) error {
	return []func(path string) error{
		func(string) error { return nil },
		func(path string) error { return os.WriteFile(path, nil, 0o600) },
		func(path string) error { return os.Symlink("none", path) },
		func(path string) error { return os.Symlink(filepath.Base(path), path) },
	}
}

func (p *folderProof) runRounds(ctx context.Context) (err error) {
	apps := files{}
	for _, app := range []string{"steady", "lone", "more/p"} {
		apps[app+"/root_agent.yaml"] = describedAgent("first")
	}
	if err := apps.writeTo(p.dir); err != nil {
		return err
	}
	if p.host, err = newHostOfFolders(ctx, p.listFolders(), &loader.WatchOptions{}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.host.close()) }()
	p.host.discardLoads()
	p.host.startWatch(ctx)
	for range p.rounds {
		for _, fault := range folderFaults() {
			if err := p.breakFolders(ctx, fault); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *folderProof) listFolders() []string {
	return []string{filepath.Join(p.dir, "steady"), filepath.Join(p.dir, "lone"), filepath.Join(p.dir, "more")}
}

// breakFolders breaks two folders, saves in the third one, restores them and saves in them.
func (p *folderProof) breakFolders(ctx context.Context, fault func(path string) error) error {
	for _, dir := range p.listFolders()[1:] {
		if err := errors.Join(os.Rename(dir, dir+".away"), fault(dir)); err != nil {
			return err
		}
	}
	loaded, err := p.saveApp(ctx, "steady")
	if err != nil {
		return err
	}
	if p.saves++; !loaded {
		p.missed++
	}
	for _, st := range p.host.watch.Folders()[1:] {
		if st.Unreadable == "" {
			p.unnamed++
		}
	}
	if findAllOrNothing(p.listFolders()) != nil {
		p.controlMissed++
	}
	for _, dir := range p.listFolders()[1:] {
		if err := errors.Join(os.RemoveAll(dir), os.Rename(dir+".away", dir)); err != nil {
			return err
		}
	}
	for _, app := range []string{"lone", "more/p"} {
		loaded, err := p.saveApp(ctx, app)
		if err != nil {
			return err
		}
		if p.returns++; !loaded {
			p.missedReturns++
		}
	}
	return nil
}

// saveApp saves an app, and reports whether it was loaded.
func (p *folderProof) saveApp(ctx context.Context, app string) (bool, error) {
	p.counter++
	want := fmt.Sprintf("save-%d", p.counter)
	if err := saveFile(rootAgentPath(filepath.Join(p.dir, app)), describedAgent(want)); err != nil {
		return false, err
	}
	got, ok := p.host.nextLoad(ctx, waitLimit)
	return ok && got == want, nil
}

// findAllOrNothing is the control: the first folder that cannot be read ends the discovery,
// so that no app is polled.
func findAllOrNothing(folders []string) error {
	for _, dir := range folders {
		if _, err := loader.Discover(dir); err != nil {
			return err
		}
	}
	return nil
}
