package sim

import (
	"fmt"
	"strings"
	"time"
)

// name draws one of the few names of the tenant's claims.
func (d *dice) name() string {
	return d.pick("", "", "", "", "", "", "", "other/") + fmt.Sprintf("%s-c%d", d.letter, d.IntN(5))
}

// network draws one of the few networks.
func (d *dice) network() string {
	return fmt.Sprintf("network=n%d cell=x%d", d.IntN(2), d.IntN(2))
}

func (d *dice) rangeName() string { return fmt.Sprintf("%s-r%d", d.letter, d.IntN(2)) }

// flat draws a claim of a class without networks.
func (d *dice) flat(name string) string {
	class := d.pick("flat", "flat", "keep", "lease", "cool", "mflat")
	option := d.pick("", "", "", " retain", " refuse", " reuse")
	return fmt.Sprintf("create %s %s length=32%s", name, class, option)
}

// inside draws a claim in a network.
func (d *dice) inside(name string) string {
	return fmt.Sprintf("create %s %s %s", name, d.pick("end", "send", "send", "vrf", "mvrf", "cell", "scell", "socket", "vhost", "vhost"), d.network())
}

func (d *dice) aRange() string {
	return fmt.Sprintf("create %s %s range %s", d.rangeName(), d.pick("net", "snet", "cnet", "scnet", "site", "room", "vnet", "vsub"), d.network())
}

// scenes are what tenants do. In a scene of two mechanisms, these meet within milliseconds.
var scenes = []scene{
	{"create", 10, func(d *dice) []string { return []string{d.flat(d.name())} }},
	{"network", 8, func(d *dice) []string { return []string{d.inside(d.name())} }},
	{"range", 4, func(d *dice) []string { return []string{d.aRange()} }},
	{"delete", 10, func(d *dice) []string { return []string{"delete " + d.name()} }},
	{"delete range", 5, func(d *dice) []string { return []string{"delete " + d.rangeName()} }},
	{"delete record", 4, func(d *dice) []string { return []string{"delete-record " + d.name()} }},
	{"reclaim", 2, func(d *dice) []string { return []string{"reclaim " + d.name() + " " + d.pick("Retain", "Delete")} }},
	{"exact", 3, func(d *dice) []string {
		return []string{fmt.Sprintf("create %s flat address=10.0.0.%d wait", d.name(), d.IntN(8))}
	}},
	{"serve", 1, func(d *dice) []string { return []string{"platform: serve mixed " + d.pick("mflat", "mvrf")} }},
	{"exclude", 1, func(d *dice) []string {
		return []string{"platform: exclude flat " + d.pick("-", "10.0.0.0/32", "10.0.0.4/31")}
	}},
	{"create, delete", 3, func(d *dice) []string {
		name := d.name()
		return []string{d.flat(name), "delete " + name}
	}},
	{"retained", 3, func(d *dice) []string { // as a network controller releases an interface
		name := d.name()
		return []string{fmt.Sprintf("create %s %s length=32 retain", name, d.pick("flat", "keep", "cool")), "delete " + name, "delete-record " + name}
	}},
	{"again", 3, func(d *dice) []string {
		name := d.name()
		return []string{"delete " + name, d.flat(name)}
	}},
	{"reuse", 2, func(d *dice) []string {
		name := d.name()
		create := fmt.Sprintf("create %s keep length=32 reuse", name)
		return []string{create, "delete " + name, create}
	}},
	{"two clients", 3, func(d *dice) []string {
		name := d.name()
		return []string{d.flat(name) + " & " + d.late() + " delete " + name + " & " + d.late() + " " + d.flat(name)}
	}},
	{"record goes", 2, func(d *dice) []string { // while the next claim of its name begins to wait for that
		name := fmt.Sprintf("%s-w%d", d.letter, d.IntN(30))
		create := fmt.Sprintf("create %s vrf network=n%d retain", name, d.IntN(9))
		return []string{create, "+300ms delete " + name, "+300ms " + create + " wait & " + d.after(300*time.Millisecond) + " delete-record " + name}
	}},
	{"reuse, delete", 1, func(d *dice) []string { // before the record names the claim
		name := fmt.Sprintf("%s-w%d", d.letter, d.IntN(30))
		create := "create " + name + " keep length=32 reuse"
		return []string{create, "+300ms delete " + name, "+300ms " + create, "delete " + name}
	}},
	{"end of a cooldown", 1, func(d *dice) []string { // that another claim waits for
		name, address := fmt.Sprintf("%s-h%d", d.letter, d.IntN(9)), fmt.Sprintf("cool address=10.3.0.%d", 8+d.IntN(8))
		return []string{"create " + name + " " + address, "delete " + name, "create " + name + "w " + address + " wait"}
	}},
	{"two deletes", 2, func(d *dice) []string {
		name := d.name()
		return []string{d.flat(name), "delete " + name + " & " + d.late() + " delete-record " + name + " & " + d.late() + " " + d.flat(name)}
	}},
	{"flip", 1, func(d *dice) []string { // a pool serves another class while its addresses cool
		name := d.name()
		return []string{
			"platform: serve mixed mflat", "create " + name + " mflat", "delete " + name, "platform: serve mixed mvrf",
			"create " + name + "f mvrf " + d.network(), "delete " + name + "f",
		}
	}},
	{"own pool", 2, func(d *dice) []string {
		pool := d.letter + "-own0"
		return []string{
			fmt.Sprintf("create-pool %s 172.16.%d.0/29", pool, d.IntN(2)),
			fmt.Sprintf("create %s - pool=%s length=31 & %s delete-pool %s", d.name(), pool, d.late(), pool),
		}
	}},
	{"delete own pool", 2, func(d *dice) []string { return []string{"delete-pool " + d.letter + "-own0"} }},
	{"namespace", 0, func(d *dice) []string {
		return []string{"delete-namespace other & " + d.late() + " " + d.flat(fmt.Sprintf("other/%s-c%d", d.letter, d.IntN(5)))}
	}},
	{"finalizer", 1, func(d *dice) []string {
		name := d.rangeName()
		return []string{"hold " + name, "delete " + name, d.inside(d.name()), "let-go " + name}
	}},
	{"stay", 1, func(d *dice) []string { // a DELETE of a range is refused, and claims go on inside
		parent, child, _ := strings.Cut(d.pick("net end", "cnet cell", "snet send", "scnet scell"), " ")
		net := fmt.Sprintf("network=stay%s%d", d.letter, d.IntN(2))
		name := d.letter + "-stay0"
		return []string{
			fmt.Sprintf("create %s %s range %s", name, parent, net),
			fmt.Sprintf("delete %s & %s create %s-in0 %s %s cell=x0", name, d.late(), d.letter, child, net),
			fmt.Sprintf("create %s-in1 %s %s cell=x1", d.letter, child, net),
			"delete " + d.letter + "-in0", "delete " + d.letter + "-in1", "delete " + name,
		}
	}},
	{"race", 1, (*dice).race},
	{"burst", 0, (*dice).burst},
	{"wait", 0, func(d *dice) []string {
		return []string{fmt.Sprintf("create %s-c%d flat length=%s wait", d.letter, d.IntN(9), d.pick("32", "32", "31"))}
	}},
	{"beside", 0, func(d *dice) []string { // waiting claims get room, while a claim comes to another pool
		name := fmt.Sprintf("%s-k%d", d.letter, d.IntN(20))
		return []string{fmt.Sprintf("delete %s & %s create %s vrf network=n%d", d.name(), d.late(), name, d.IntN(9)), "delete " + name}
	}},
	{"limit", 1, func(d *dice) []string { // four at once, where the limit is two
		all := func(verb, class string) string {
			return fmt.Sprintf("+100ms %[1]s %[2]s-f0%[3]s & +100ms %[1]s %[2]s-f1%[3]s & +100ms %[1]s %[2]s-f2%[3]s & +100ms %[1]s %[2]s-f3%[3]s", verb, d.letter, class)
		}
		return []string{all("delete", ""), all("create", " few length=32 wait")}
	}},
	{"two holders", 1, func(d *dice) []string { // of one range
		class, other := d.pick("snet", "scnet"), d.pick(letters...)
		create := fmt.Sprintf("create %%s-hold0 %s range network=hold%d", class, d.IntN(2))
		return []string{
			fmt.Sprintf(create, d.letter) + " & " + d.late() + " " + other + "0: " + fmt.Sprintf(create, other),
			fmt.Sprintf("delete %s-hold0 & %s %s0: delete %s-hold0", d.letter, d.late(), other, other),
		}
	}},
	{"few", 1, func(d *dice) []string {
		return []string{fmt.Sprintf("create %s-f%d few length=32 wait", d.letter, d.IntN(4)), fmt.Sprintf("delete %s-f%d", d.letter, d.IntN(4))}
	}},
	{"hammer", 0, func(d *dice) []string {
		name := d.rangeName()
		return []string{"hold " + name, fmt.Sprintf("hammer %s 4", name), "let-go " + name}
	}},
	{"storm", 0, (*dice).storm},
	{"show path", 0, func(d *dice) []string {
		victim := d.pick(letters...)
		return []string{"show-path root:" + victim, fmt.Sprintf("%s0: create %s-c8 flat length=32 & %s %s", victim, victim, d.late(), d.flat(d.name())), "show-path root:" + d.letter}
	}},
	{"forge", 0, func(d *dice) []string {
		victim := d.pick(letters...)
		return []string{
			fmt.Sprintf("create %s-g0 flat length=32", d.letter),
			fmt.Sprintf("forge %s-g0 %s/default/%s-c%d", d.letter, victim, victim, d.IntN(5)),
			d.flat(d.name()), fmt.Sprintf("delete %s-g0", d.letter),
		}
	}},
}

// race deletes a range while claims come inside, each in a new address space. At last, one more claim comes.
func (d *dice) race() []string {
	parent, child, _ := strings.Cut(d.pick("cnet cell", "scnet scell", "net end", "snet send"), " ")
	net := fmt.Sprintf("network=race%d", d.IntN(2))
	name := d.letter + "-race0"
	meet := append(make([]string, 0, 4), "delete "+name)
	steps := []string{fmt.Sprintf("create %s %s range %s", name, parent, net), ""}
	for i := range 3 {
		meet = append(meet, fmt.Sprintf("%s create %s-in%d %s %s cell=y%d", d.late(), d.letter, i, child, net, i))
		steps = append(steps, fmt.Sprintf("delete %s-in%d", d.letter, i))
	}
	steps[1] = strings.Join(meet, " & ")
	late := d.letter + "-late0"
	return append(steps, fmt.Sprintf("create %s %s %s cell=z", late, child, net), "delete "+late, "delete "+name)
}

// burst creates many claims in a network that all workspaces share.
func (d *dice) burst() (steps []string) {
	net := d.network()
	for i := range 12 {
		steps = append(steps, fmt.Sprintf("create %s-b%d send %s", d.letter, i, net))
	}
	return steps
}

// storm deletes a shared range that is Terminating again and again, while another tenant claims inside.
func (d *dice) storm() []string {
	net := fmt.Sprintf("network=storm%d", d.IntN(3))
	name := d.letter + "-storm0"
	other := d.pick(letters...)
	guest := fmt.Sprintf("%s0: create %s-guest0 send %s", other, other, net)
	return []string{
		fmt.Sprintf("create %s snet range finalizer %s", name, net),
		"delete " + name,
		fmt.Sprintf("+4s hammer %s 15 & +%s %s", name, 4*time.Second+50*time.Millisecond, guest),
		fmt.Sprintf("%s0: delete %s-guest0", other, other),
		"let-go " + name,
	}
}
