package loader

import (
	"crypto/sha256"
	"errors"
	"sync"

	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// A pool lends sets of tools to apps, and to the next revision of an app those
// that it asks for in the same words: what a set holds open stays open across a
// reload. A set closes when the last app that has it does. Many goroutines may
// use a pool.
type pool struct {
	mu   sync.Mutex
	sets map[poolKey]*lent
}

// A poolKey is what a set is built from: an app's name, a kind and a config, as
// a hash. Where the config stands does not matter.
type poolKey [sha256.Size]byte

func poolKeyOf(app, kind string, n *spec.Node) poolKey {
	return sha256.Sum256([]byte(app + "\x00" + kind + "\x00" + textOf(n)))
}

// lent is a set and how many have it.
type lent struct {
	set   tool.Set
	users int
}

// take lends the set of a key, or builds it. What is returned besides gives it
// back, and is called once.
func (p *pool) take(key poolKey, build func() (tool.Set, error)) (tool.Set, func() error, error) {
	if set, ok := p.lend(key, nil); ok {
		return set, func() error { return p.giveBack(key) }, nil
	}
	built, err := build() // may take its time
	if err != nil {
		return nil, nil, err
	}
	set, there := p.lend(key, built)
	giveBack := func() error { return p.giveBack(key) }
	if there { // somebody else has built one meanwhile
		giveBack = func() error { return errors.Join(built.Close(), p.giveBack(key)) }
	}
	return set, giveBack, nil
}

// lend counts one more user of a set that is there, or of a new one. It says
// whether one was there.
func (p *pool) lend(key poolKey, built tool.Set) (tool.Set, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.sets[key]
	there := l != nil
	if !there {
		if built == nil {
			return nil, false
		}
		l = &lent{set: built}
		p.sets[key] = l
	}
	l.users++
	return l.set, there
}

func (p *pool) giveBack(key poolKey) error {
	p.mu.Lock()
	l := p.sets[key]
	l.users--
	last := l.users == 0
	if last {
		delete(p.sets, key)
	}
	p.mu.Unlock()
	if !last {
		return nil
	}
	return l.set.Close()
}
