package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Draw makes the story of a seed.
func Draw(profile string, seed uint64) Story {
	p, story := profiles[profile], Story{Profile: profile, Seed: seed}
	for i, letter := range letters {
		for client := range 2 {
			d := &dice{rand.New(rand.NewPCG(seed, uint64(100+10*i+client))), letter} //nolint:gosec // repeatable
			story.Steps = append(story.Steps, d.client(fmt.Sprint(letter, client), p)...)
		}
	}
	d := &dice{rand.New(rand.NewPCG(seed, 99)), ""} //nolint:gosec // repeatable
	story.Steps = append(story.Steps, d.faults(p, time.Duration(p.Steps)*p.Pause/5)...)
	return story
}

// dice draws for a tenant.
type dice struct {
	*rand.Rand
	letter string
}

// scene is something that tenants do. It returns its steps, which follow each other.
type scene struct {
	name   string
	weight int
	steps  func(d *dice) []string
}

// pick returns one of the words.
func (d *dice) pick(words ...string) string { return words[d.IntN(len(words))] }

// most returns a duration up to a bound, in whole microseconds.
func (d *dice) most(bound time.Duration) time.Duration {
	return time.Duration(d.Int64N(int64(bound/time.Microsecond)+1)) * time.Microsecond
}

// late returns a delay of at most some milliseconds, so that two actions meet.
func (d *dice) late() string { return d.after(0) }

// after returns a delay that is at most some milliseconds longer than another one.
func (d *dice) after(delay time.Duration) string {
	return "+" + (delay + d.most(8*time.Millisecond)).String()
}

// client draws the steps of a client.
func (d *dice) client(actor string, p Profile) (steps []Step) {
	list := make([]scene, 0, len(scenes))
	total := 0
	for _, s := range scenes {
		weight, named := p.Scenes[s.name]
		switch {
		case named:
			s.weight = weight
		case p.Only:
			s.weight = 0
		}
		total += s.weight
		list = append(list, s)
	}
	for range p.Steps {
		n := d.IntN(total)
		for _, s := range list {
			if n -= s.weight; n < 0 {
				steps = append(steps, d.stage(actor, p, s.steps(d))...)
				break
			}
		}
	}
	return steps
}

// stage gives the steps of a scene their actor and their pauses.
func (d *dice) stage(actor string, p Profile, texts []string) (steps []Step) {
	for i, text := range texts {
		parts, err := parseParts(text)
		if err != nil {
			panic(err)
		}
		step := Step{Actor: actor, Parts: parts}
		if i == 0 {
			step.Pause = d.pause(p.Pause)
		}
		steps = append(steps, step)
	}
	return steps
}

// pause draws a pause: none, a moment, or long.
func (d *dice) pause(most time.Duration) time.Duration {
	switch d.IntN(4) {
	case 0:
		return 0
	case 1:
		return d.most(5 * time.Millisecond)
	case 2:
		return d.most(300 * time.Millisecond)
	}
	return d.most(most)
}

// faults draws faults for about the time that the tenants act.
func (d *dice) faults(p Profile, lasts time.Duration) (steps []Step) {
	names, total := sorted(p.Faults), 0
	for _, name := range names {
		total += p.Faults[name]
	}
	for at := time.Duration(0); total > 0 && at < lasts; {
		n := d.IntN(total)
		for _, name := range names {
			if n -= p.Faults[name]; n >= 0 {
				continue
			}
			for _, step := range faults[name](d) {
				parts, err := parseParts(step.does)
				if err != nil {
					panic(err)
				}
				pause := d.most(step.after)
				if step.after == 0 {
					pause = d.most(p.Between)
				}
				at += pause
				steps = append(steps, Step{Actor: "fault", Pause: pause, Parts: parts})
			}
			break
		}
	}
	return steps
}

// fault is a step of a fault. It follows a pause of at most after. If after is zero, the profile gives the bound.
type fault struct {
	after time.Duration
	does  string
}

// faults are the faults that a profile can name.
var faults = map[string]func(d *dice) []fault{
	"weather": func(d *dice) []fault {
		names := sorted(weathers)
		return []fault{{does: "weather " + names[d.IntN(len(names))]}}
	},
	"etcd":         func(d *dice) []fault { return []fault{{does: "weather " + d.pick("etcd-late", "etcd-lossy")}} },
	"kill":         func(*dice) []fault { return []fault{{does: "kill"}, {20 * time.Second, "start"}} },
	"kill leader":  func(*dice) []fault { return []fault{{does: "kill leader"}, {20 * time.Second, "start"}} },
	"kill standby": func(*dice) []fault { return []fault{{does: "kill standby"}, {20 * time.Second, "start"}} },
	"pause": func(d *dice) []fault {
		return []fault{{does: fmt.Sprintf("pause %s %s", d.pick("leader", "leader", "standby"), d.most(12*time.Second))}}
	},
	"roll":    func(*dice) []fault { return []fault{{does: "roll"}} },
	"compact": func(*dice) []fault { return []fault{{does: "compact"}} },
	"forget":  func(*dice) []fault { return []fault{{does: "forget"}} },
	"break":   func(*dice) []fault { return []fault{{does: "break"}} },
	"unbind": func(d *dice) []fault {
		letter := d.pick(letters...)
		return []fault{{does: fmt.Sprintf("unbind %s %s", letter, d.most(50*time.Millisecond))}, {5 * time.Second, "bind " + letter}}
	},
	"rebind": func(d *dice) []fault { // at once, while objects are written for the former binding
		letter := d.pick(letters...)
		return []fault{{does: fmt.Sprintf("unbind %s %s", letter, d.most(3*time.Millisecond))}, {3 * time.Millisecond, "bind " + letter}}
	},
	"restore below a range": belowRange,
	"restore kcp": func(d *dice) []fault {
		return []fault{{does: "copy-kcp"}, {40 * time.Second, "restore-kcp " + d.pick("old", "raised")}, {10 * time.Minute, "copy-kcp"}}
	},
	"restore etcd": func(*dice) []fault {
		return []fault{{does: "copy-etcd"}, {15 * time.Second, "restore-etcd"}}
	},
}

// belowRange restores a kcp that knows a range, and none of the many claims in it. Then the range is deleted.
func belowRange(d *dice) []fault {
	owner, guest, net := d.pick(letters...), d.pick(letters...), fmt.Sprintf("network=brake%d", d.IntN(3))
	claims := make([]string, tolerated+2)
	for i := range claims {
		claims[i] = fmt.Sprintf("%s0: create %s-brake%d send %s", guest, guest, i, net)
	}
	return []fault{
		{does: fmt.Sprintf("%s0: create %s-brake snet range %s", owner, owner, net)},
		{time.Second, "copy-kcp"},
		{time.Second, strings.Join(claims, " & ")},
		{2 * time.Second, "restore-kcp " + d.pick("old", "raised")},
		{20 * time.Second, fmt.Sprintf("%s0: delete %s-brake", owner, owner)},
		{10 * time.Minute, "copy-kcp"},
	}
}
