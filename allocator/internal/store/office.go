package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"go.etcd.io/etcd/api/v3/mvccpb"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// head is the head of the ledger. No two heads that are put have the same value.
type head struct {
	key   string
	is    officeValue
	value string
}

// officeValue is the value of the head. It names the process that has the office of the ledger's writer.
type officeValue struct {
	V  int    `json:"v"`
	N  int64  `json:"n"`            // how often the office was taken
	By string `json:"by"`           // the process that has it
	At string `json:"at,omitempty"` // the address at which that process answers
	C  int64  `json:"c"`            // how often that process has put the head
}

func (h head) with(is officeValue) head { return head{key: h.key, is: is, value: encode(is)} }

// after returns the head that is put n changes after this one.
func (h head) after(n int64) head {
	is := h.is
	is.C += n
	return h.with(is)
}

func (h head) same() clientv3.Cmp { return clientv3.Compare(clientv3.Value(h.key), "=", h.value) }

func (h head) put() clientv3.Op { return Put(h.key, h.value) }

// was reports whether the value that was read is this head.
func (h head) was(read *mvccpb.KeyValue) bool { return read != nil && string(read.Value) == h.value }

// lost returns why the ledger does not have this head any more. read is the head that it has; nil: it has none.
func (h head) lost(read *mvccpb.KeyValue) error {
	var v officeValue
	switch {
	case read == nil:
		return fmt.Errorf("%w (it has no head)", ledger.ErrReplaced)
	case decode(h.key, read.Value, &v) == nil && v.N > h.is.N:
		return ledger.ErrDeposed
	}
	return fmt.Errorf("%w (its head is %s, and was %s)", ledger.ErrReplaced, read.Value, h.value)
}

// Office is the office of the ledger's one writer, which this process has taken. Each transaction compares the head of
// the ledger as this process has put it last. Each transaction that writes puts the next head. So no transaction is
// committed after another process has taken the office, or in another ledger. If an answer is lost, the head says
// whether the transaction was committed. Transactions are sent one after the other. It is safe for concurrent use.
type Office struct {
	kv   *clientv3.Client
	turn chan struct{} // the caller whose value is in the channel may send
	id   string        // the key of the ledger's ID
	head head
	lost *Sent // the last transaction, if its outcome is not known yet
}

// Transaction is a transaction of the office: if all comparisons of If hold, it does the operations of Then, else those
// of Else.
type Transaction struct {
	If         []clientv3.Cmp
	Then, Else []clientv3.Op
	// Around calls send. A test may lose the transaction or its answer. nil: the transaction is just sent.
	Around func(send func() (*clientv3.TxnResponse, error)) (*clientv3.TxnResponse, error)
}

// Sent is a transaction that was not answered.
type Sent struct {
	before, puts head
	reads        bool  // it writes nothing, or etcd has answered NOSPACE, and may have committed it nevertheless
	known        bool  // the outcome is known: see landed
	landed       int64 // the revision at which it was committed; 0: it was not committed, and cannot be any more
}

// Send sends a transaction. The transaction also compares the head of the ledger, and puts the next head if it writes.
// ErrDeposed: another process has the office. ErrReplaced: the ledger is another one, for example restored from a copy.
// Any other error is of etcd. If Sent is not nil, the transaction may have been committed, or may still be committed.
func (o *Office) Send(ctx context.Context, t Transaction) (*clientv3.TxnResponse, *Sent, error) {
	if err := o.begin(ctx); err != nil {
		return nil, nil, err
	}
	defer o.end()
	if err := o.settle(ctx); err != nil {
		return nil, nil, err
	}
	next, then := o.head, t.Then
	if slices.ContainsFunc(then, func(op clientv3.Op) bool { return !op.IsGet() }) {
		next = o.head.after(1)
		then = slices.Concat(then, Ops(next.put()))
	}
	send := o.kv.Txn(ctx).If(slices.Concat(t.If, Cmps(o.head.same()))...).Then(then...).
		Else(slices.Concat(t.Else, Ops(Get(o.head.key)))...).Commit
	if t.Around == nil {
		t.Around = func(send func() (*clientv3.TxnResponse, error)) (*clientv3.TxnResponse, error) { return send() }
	}
	resp, err := t.Around(send)
	switch {
	case err != nil && !Refused(err) && !TooLarge(err):
		o.lost = &Sent{before: o.head, puts: next, reads: next == o.head || NoSpace(err)}
		return nil, o.lost, err
	case err != nil:
		return nil, nil, err
	case resp.Succeeded:
		o.head = next
	default:
		if read := Results(resp.Responses).Found(len(resp.Responses) - 1); !o.head.was(read) {
			return nil, nil, o.leave(ctx, o.head.lost(read), read)
		}
	}
	return resp, nil, nil
}

// Outcome finds out for certain what became of a transaction that was not answered. It returns the revision at which
// the transaction was committed; 0: it was not committed, and will not be. After an error of etcd, call Outcome again.
func (o *Office) Outcome(ctx context.Context, s *Sent) (landed int64, err error) {
	if err := o.begin(ctx); err != nil {
		return 0, err
	}
	defer o.end()
	if !s.known {
		err = o.settle(ctx)
	}
	return s.landed, err
}

// settle reads the head of the ledger to find out whether the lost transaction was committed.
//
// If the head is the one that the transaction puts, the transaction was committed. If it is still the head before, the
// transaction may still be on its way to etcd. Then settle puts another head, after which the transaction cannot be
// committed any more. A transaction that writes nothing needs no such head. If the head is neither of the two, this
// process does not have the ledger any more.
func (o *Office) settle(ctx context.Context) error {
	s := o.lost
	if s == nil {
		return nil
	}
	instead := s.puts.after(1)
	then := instead.put()
	if s.reads { // no other one is needed, or etcd has no space for another one
		instead, then = s.before, Get(s.before.key)
	}
	resp, err := o.kv.Txn(ctx).If(s.before.same()).Then(then).Else(Get(s.before.key)).Commit()
	if err != nil {
		return err
	}
	switch read := Results(resp.Responses).Found(0); {
	case resp.Succeeded, instead.was(read): // put when settle was called before, and had no answer
		o.head = instead
	case s.puts.was(read):
		o.head, s.landed = s.puts, read.ModRevision
	default:
		return o.leave(ctx, s.before.lost(read), read)
	}
	s.known, o.lost = true, nil
	return nil
}

// leave returns why this process cannot use the ledger any more. If the ledger was replaced, leave gives it another ID,
// unless its head has changed since it was read. The changes of this process's last half second may be in no status of
// a pool yet. So a copy of the ledger without them would seem to have all changes. The other ID says that the copy may
// lack some.
func (o *Office) leave(ctx context.Context, why error, read *mvccpb.KeyValue) error {
	if !errors.Is(why, ledger.ErrReplaced) {
		return why
	}
	same, renew := At(o.head.key, revisionOf(read)), putID(o.id, rand.Text())
	if _, err := o.kv.Txn(ctx).If(same).Then(renew).Commit(); err != nil {
		return fmt.Errorf("%w (it keeps its ID: %v)", why, err) //nolint:errorlint // Nothing tries this again.
	}
	return why
}

// begin waits for the turn to send. If ctx has ended, nothing is sent, because the transaction might be committed
// nevertheless.
func (o *Office) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case o.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (o *Office) end() { <-o.turn }

// Candidacy is the attempt of a process to take the office of the one writer from the process that has it. It is not
// safe for concurrent use.
type Candidacy struct {
	store *Store
	mine  head
	after int64 // how often the office was taken before
}

// Candidate returns the candidacy of a process for the office. by is the name of the process; no other process has this
// name. at is the address at which the process answers.
func (s *Store) Candidate(by, at string) *Candidacy {
	return &Candidacy{store: s, mine: head{key: s.Keys.Office(), is: officeValue{V: valueVersion, By: by, At: at}}}
}

// Leader reads the address of the process that has the office. The address is empty if that process has given none, or
// no process has the office. The process may be gone.
func (r Reader) Leader(ctx context.Context) (at string, err error) {
	s := NewStore(r.Client, r.Prefix)
	kv, _, err := s.Get(ctx, s.Keys.Office())
	if err != nil || kv == nil {
		return "", err
	}
	var v officeValue
	err = decode(string(kv.Key), kv.Value, &v)
	return v.At, err
}

// Take takes the office: it puts the head of the ledger. From then on the store writes by the office. ErrDeposed:
// another process has taken the office since the first call. After any other error, call Take again: if only the answer
// was lost, Take finds its own head in the ledger.
func (c *Candidacy) Take(ctx context.Context) (*Office, error) {
	for {
		read, _, err := c.store.Get(ctx, c.mine.key)
		if err != nil {
			return nil, err
		}
		taken, err := c.follow(read)
		if err != nil {
			return nil, err
		}
		if !taken {
			resp, err := c.store.Commit(ctx, Cmps(At(c.mine.key, revisionOf(read))), Ops(c.mine.put()), nil)
			if err != nil {
				return nil, err
			}
			taken = resp.Succeeded // else the former writer has put the head once more
		}
		if taken {
			o := &Office{
				kv: c.store.Client, id: c.store.Keys.ledger(), head: c.mine, turn: make(chan struct{}, 1),
			}
			c.store.office.Store(o)
			return o, nil
		}
	}
}

// follow judges the head that was read; nil: the ledger has none. At its first call, follow makes the head of this
// process, which takes the office once more than that head says. taken reports whether the head that was read is that
// of this process. ErrDeposed: another process has taken the office since the first call.
func (c *Candidacy) follow(read *mvccpb.KeyValue) (taken bool, err error) {
	var former officeValue
	if read != nil {
		if err := decode(c.mine.key, read.Value, &former); err != nil {
			return false, err
		}
	}
	switch {
	case c.mine.value == "":
		is := c.mine.is
		is.N = former.N + 1
		c.mine, c.after = c.mine.with(is), former.N
		return false, nil
	case c.mine.was(read):
		return true, nil
	case former.N != c.after:
		return false, ledger.ErrDeposed
	}
	return false, nil
}

func revisionOf(kv *mvccpb.KeyValue) int64 {
	if kv == nil {
		return 0
	}
	return kv.ModRevision
}

// Write sends a transaction that is not in the writer's queue. If this process has taken the office, the transaction is
// committed only while the process still has the office.
func (s *Store) Write(ctx context.Context, ifs []clientv3.Cmp, then, els []clientv3.Op) (*clientv3.TxnResponse, error) {
	o := s.office.Load()
	if o == nil {
		return s.Commit(ctx, ifs, then, els)
	}
	if err := s.CheckOpen(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	resp, _, err := o.Send(ctx, Transaction{If: ifs, Then: then, Else: els})
	switch {
	case Gone(err):
		s.Lost(err)
		return nil, err
	case err != nil:
		return nil, s.Unavailable(err)
	}
	return resp, nil
}
