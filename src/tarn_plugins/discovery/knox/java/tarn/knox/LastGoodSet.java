package tarn.knox;

import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;

/**
 * Decides who is in the fleet, from the nodes that are there and from the master's word.
 *
 * <p>An instance's node is ephemeral: it vanishes when its master leaves the instance out, and also
 * when the master's session ends while the instance goes on. The fleet's node, which stays, tells
 * the two apart. Not for several threads at once.
 */
final class LastGoodSet {
  /** What one fleet's node says; {@code nodes} is null where it does not name them. */
  static final class Word {
    final int count;
    final Set<String> nodes;

    Word(int count, Collection<String> nodes) {
      this.count = count;
      this.nodes = nodes == null ? null : new HashSet<>(nodes);
    }
  }

  private final Map<String, String> present = new HashMap<>();
  private final Map<String, String> vanished = new HashMap<>();
  private final Map<String, Word> words = new HashMap<>();

  /** Hears that the node of an instance is there. */
  void appear(String node, String url) {
    present.put(node, url);
    vanished.remove(node);
  }

  /** Hears that the node of an instance is not there any more. */
  void vanish(String node) {
    String url = present.remove(node);
    if (url != null) {
      vanished.put(node, url);
    }
  }

  /** Hears a master; null: its fleet's node was removed, so the fleet is no more. */
  void hear(String fleet, Word word) {
    if (word == null) {
      // Its last word still tells what of the vanished was meant to go.
      words.put(fleet, new Word(0, Collections.emptySet()));
    } else {
      words.put(fleet, word);
    }
  }

  /** Returns node to URL, sorted by node, with those that vanished without their master's word. */
  SortedMap<String, String> urls() {
    vanished.keySet().removeIf(node -> !isMissed(node));
    SortedMap<String, String> found = new TreeMap<>(vanished);
    found.putAll(present);
    return found;
  }

  /** Says whether the masters say that there is nobody. */
  boolean isMeantEmpty() {
    return !words.isEmpty() && words.values().stream().allMatch(word -> word.count == 0);
  }

  private boolean isMissed(String node) {
    if (words.isEmpty()) {
      return present.isEmpty(); // nobody says how many there should be: the last set is kept
    }
    int unnamed = 0;
    boolean counts = false;
    for (Word word : words.values()) {
      if (word.nodes == null) {
        counts = true;
        unnamed += word.count;
      } else if (word.nodes.contains(node)) {
        return true;
      }
    }
    return counts && present.size() < unnamed + named();
  }

  private int named() {
    Set<String> all = new HashSet<>();
    for (Word word : words.values()) {
      if (word.nodes != null) {
        all.addAll(word.nodes);
      }
    }
    return all.size();
  }
}
